#!/usr/bin/env bash
# Builds the Python wheel from build/release into build/wheel, installs it into build/venv and runs its tests;
# arguments go to pytest.
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
pip=(build/venv/bin/pip --quiet --disable-pip-version-check)
rm -rf build/wheel
"${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir build/wheel ./python
"${pip[@]}" install --no-index --no-deps --force-reinstall build/wheel/dfkv-*.whl
scratch=build/python-tests  # pytest would keep the nodes' data of three runs in /tmp
status=0
build/venv/bin/python -m pytest -q -p no:cacheprovider --basetemp "$scratch" python/tests "$@" || status=$?
rm -rf "$scratch"
exit "$status"
