#!/usr/bin/env bash
# install_packages.sh GROUP...: installs the packages of these groups of debian-packages.txt that are missing.
# A check with nothing to do takes milliseconds. Services that packages bring along are not started.
set -euo pipefail
list="$(cd "$(dirname "$0")" && pwd)/debian-packages.txt"

packages=()
for group in "$@"; do
  grep -q "^$group " "$list" || { echo "install_packages: no group '$group' in $list" >&2; exit 2; }
  while read -r _ package; do packages+=("$package"); done < <(grep "^$group " "$list")
done

if ! command -v dpkg-query >/dev/null; then
  echo "install_packages: this is no Debian system; what is needed under Debian's names: ${packages[*]}" >&2
  exit 0
fi
installed="$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)"
missing=()
for package in "${packages[@]}"; do
  grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_packages: missing packages, and neither root nor sudo to install them. As root:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing Debian packages (a minute or two): ${missing[*]}"
# Debian asks this file before it starts a service; dfkv wants the tools, not the daemons.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi
"${as_root[@]}" apt-get update -qq </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" </dev/null
