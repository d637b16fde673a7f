#!/bin/bash
# Storage faults under a real kernel, in a guest: power cuts at any write, and a disk whose writes fail.
# `storage_test.sh [TEST...]`; DFKV_PROGRAMS and DFKV_LIBRARY name the programs. Exit status: the test's; 125: no guest.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
export DFKV_PROGRAMS=${DFKV_PROGRAMS:-$root/build/release/bin}
export DFKV_LIBRARY=${DFKV_LIBRARY:-$root/build/release/lib/libdfkv.so}
exec ./run_in_vm.sh -m 2G -t "${DFKV_VM_SECONDS:-900}" -d 512M -d 2G -d 512M -- python3 -B storage_faults.py "$@"
