"""The structs as ctypes callers mirror them, against what the C compiler made of the header.

usage: layout_test.py PROGRAM   (the program built from layout.c)
"""
import ctypes
import pathlib
import struct
import subprocess
import sys
from ctypes import c_char_p, c_int32, c_uint32, c_uint64, c_void_p

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/src"))
from dfkv import _abi, _native  # noqa: E402


class dfkv_client_options_v2(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("abi_version", c_uint32), ("members", c_char_p),
        ("key_namespace", c_void_p), ("key_namespace_len", c_uint64), ("batch_concurrency", c_uint64),
        ("mds_endpoints", c_char_p), ("mds_group", c_char_p), ("mds_poll_ms", c_int32), ("flags", c_uint32),
        ("client_id", c_char_p), ("client_info", c_char_p), ("client_heartbeat_ms", c_int32),
        ("reserved0", c_uint32),
    ]


# FROZEN: what existing connectors were compiled with.
V2 = {
    "struct_size": 0, "abi_version": 4, "members": 8, "key_namespace": 16, "key_namespace_len": 24,
    "batch_concurrency": 32, "mds_endpoints": 40, "mds_group": 48, "mds_poll_ms": 56, "flags": 60,
    "client_id": 64, "client_info": 72, "client_heartbeat_ms": 80, "reserved0": 84,
}


# The arrays of structs that the Python package packs by a format.
FORMATS = {
    "dfkv_put_item3": _native.PUT_ITEM, "dfkv_get_item3": _native.GET_ITEM, "dfkv_key3": _native.KEY,
    "dfkv_buffer3": _native.BUFFER, "dfkv_result3": _native.RESULT.format.lstrip("="),
}


def mirrored():
    rows = set()
    for name, mirror in {"dfkv_client_options_v2": dfkv_client_options_v2, **_abi.STRUCTS}.items():
        rows.add((name, ".", 0, ctypes.sizeof(mirror)))
        for field_name, _ in mirror._fields_:
            field = getattr(mirror, field_name)
            rows.add((name, field_name, field.offset, field.size))
    return rows


def misfit(name, layout):
    """What a format says of a struct, where that is wrong."""
    fields = [getattr(_abi.STRUCTS[name], field) for field, _ in _abi.STRUCTS[name]._fields_]
    sizes = [struct.calcsize("=" + letter) for letter in layout]
    good = sizes == [field.size for field in fields] and sum(sizes) == ctypes.sizeof(_abi.STRUCTS[name])
    return [] if good else [f"{name} is packed as {layout}"]


def main():
    ran = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{sys.argv[1]} failed:\n{ran.stderr}")
    lines = [line.split() for line in ran.stdout.splitlines()]
    compiled = {(struct, name, int(offset), int(size)) for struct, name, offset, size in lines}
    differences = sorted(compiled ^ mirrored())
    differences += [text for name, layout in FORMATS.items() for text in misfit(name, layout)]
    if differences:
        sys.exit("the header and the ctypes mirror differ:\n" + "\n".join(map(str, differences)))
    v2 = {name: offset for struct, name, offset, _ in compiled if struct == "dfkv_client_options_v2" and name != "."}
    if v2 != V2 or ("dfkv_client_options_v2", ".", 0, 88) not in compiled:
        sys.exit(f"ABI v2 has moved: {v2}")
    print(f"{len(compiled)} rows agree")


if __name__ == "__main__":
    main()
