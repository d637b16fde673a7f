#!/usr/bin/env bash
# Builds the Python package against build/release into build/venv and runs its tests; arguments go to pytest.
# Debian's own setuptools, pytest and numpy are used, so nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ ! -f python/pyproject.toml ]; then
  echo "python: no package in python/ yet"
  exit 0
fi
python=/usr/bin/python3
[ -x "$python" ] || python=python3
[ -x build/venv/bin/python ] || "$python" -m venv --system-site-packages build/venv
export DFKV_BUILD="$PWD/build/release"
build/venv/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall ./python
exec build/venv/bin/python -m pytest -q -p no:cacheprovider python/tests "$@"
