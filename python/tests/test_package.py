"""The package without a node: what it carries, what it imports, where it finds the library."""
import ctypes
import pathlib
import subprocess
import sys

import pytest

import dfkv
from dfkv import Code, _native


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )


def test_importing_brings_no_heavy_module():
    ran = run_python("import sys, dfkv; print([m for m in ('numpy', 'torch') if m in sys.modules])")
    assert ran.stdout.strip() == "[]", ran.stderr


def test_the_package_carries_the_library_and_its_types():
    folder = pathlib.Path(dfkv.__file__).parent
    assert (folder / "py.typed").exists()
    assert (folder / "lib/libdfkv.so").exists()
    ran = run_python("import dfkv; print(dfkv.library_version())")  # nothing in the environment
    assert ran.stdout.strip() == dfkv.library_version(), ran.stderr


def test_the_environment_names_another_library(tmp_path):
    ran = run_python("import dfkv; dfkv.library_version()", DFKV_LIB=str(tmp_path / "none.so"))
    assert "LibraryNotFound" in ran.stderr and "none.so" in ran.stderr
    packaged = pathlib.Path(dfkv.__file__).parent / "lib/libdfkv.so"
    (tmp_path / "libdfkv.so").symlink_to(packaged)
    find = "from dfkv import _native; print(_native.load()._name)"
    assert run_python(find, DFKV_BUILD=str(tmp_path)).stdout.strip() == str(tmp_path / "libdfkv.so")
    assert run_python(find, DFKV_LIB=str(packaged), DFKV_BUILD=str(tmp_path)).stdout.strip() == str(packaged)


def test_every_code_has_its_exception():
    for code in Code:
        if code in (Code.OK, Code.NOT_FOUND):
            continue
        error = dfkv.errors.error_of(code, "why")
        assert isinstance(error, dfkv.DfkvError) and error.code == code and str(error) == "why"
    assert dfkv.errors.error_of(99, "").code == Code.UNKNOWN


def test_layouts_fit_the_header():
    assert ctypes.sizeof(_native.OpenOptions) == 72
    assert ctypes.sizeof(_native.CallOptions) == 16
    assert _native.RESULT.size == 16
    assert len(_native.pack(_native.PUT_ITEM, [0] * 5)) >= 32


def test_buffers_are_released_when_a_later_one_is_bad():
    room = bytearray(10)
    with pytest.raises(TypeError), _native.Buffers() as held:
        held.pieces([room, 5], True)
    room.append(1)


def test_the_environment_tunes_the_client():
    open_client = "import dfkv; dfkv.Client('a=127.0.0.1:1', b'n')"
    ran = run_python(open_client, DFKV_RDMA="1")
    assert "UnsupportedError" in ran.stderr and "RDMA" in ran.stderr  # never TCP in silence
    assert run_python(open_client, DFKV_RDMA="0").returncode == 0
    ran = run_python(open_client, DFKV_CLIENT_STALL_MS="nonsense")
    assert ran.returncode == 0 and "DFKV_CLIENT_STALL_MS" in ran.stderr  # said, and the default taken
    slow = "import dfkv; c = dfkv.Client('a=127.0.0.1:1', b'n')\ntry: c.get(b'k')\nexcept dfkv.DfkvError: pass"
    assert "is avoided for 1234 ms" in run_python(slow, DFKV_PEER_COOLDOWN_MS="1234").stderr
    assert run_python(slow, DFKV_LOG="error").stderr == ""
