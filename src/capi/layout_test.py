"""The structs as ctypes callers mirror them, against what the C compiler made of the header.

usage: layout_test.py PROGRAM   (the program built from layout.c)
"""
import ctypes
import subprocess
import sys
from ctypes import c_char_p, c_int32, c_uint32, c_uint64, c_void_p


class dfkv_client_options_v2(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("abi_version", c_uint32), ("members", c_char_p),
        ("key_namespace", c_void_p), ("key_namespace_len", c_uint64), ("batch_concurrency", c_uint64),
        ("mds_endpoints", c_char_p), ("mds_group", c_char_p), ("mds_poll_ms", c_int32), ("flags", c_uint32),
        ("client_id", c_char_p), ("client_info", c_char_p), ("client_heartbeat_ms", c_int32),
        ("reserved0", c_uint32),
    ]


class dfkv_open_options3(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("flags", c_uint32), ("members", c_char_p), ("key_namespace", c_void_p),
        ("key_namespace_len", c_uint64), ("min_rate_bytes", c_uint64), ("stall_ms", c_uint32),
        ("connect_ms", c_uint32), ("calls_max", c_uint32), ("idle_ms", c_uint32),
        ("peer_cooldown_ms", c_uint32), ("peer_cooldown_max_ms", c_uint32), ("spin_us", c_uint32),
        ("reserved0", c_uint32),
    ]


class dfkv_call_options3(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("deadline_ms", c_uint32), ("reserved0", c_uint32)]


class dfkv_buffer3(ctypes.Structure):
    _fields_ = [("ptr", c_void_p), ("len", c_uint64)]


class dfkv_key3(ctypes.Structure):
    _fields_ = [("key", c_void_p), ("key_len", c_uint64)]


class dfkv_put_item3(ctypes.Structure):
    _fields_ = [("key", c_void_p), ("key_len", c_uint64), ("buffers", c_void_p), ("num_buffers", c_uint32),
                ("depth", c_uint32)]


class dfkv_get_item3(ctypes.Structure):
    _fields_ = [("key", c_void_p), ("key_len", c_uint64), ("buffers", c_void_p), ("num_buffers", c_uint32),
                ("flags", c_uint32), ("offset", c_uint64)]


class dfkv_result3(ctypes.Structure):
    _fields_ = [("code", c_int32), ("reserved0", c_uint32), ("length", c_uint64)]


# FROZEN: what existing connectors were compiled with.
V2 = {
    "struct_size": 0, "abi_version": 4, "members": 8, "key_namespace": 16, "key_namespace_len": 24,
    "batch_concurrency": 32, "mds_endpoints": 40, "mds_group": 48, "mds_poll_ms": 56, "flags": 60,
    "client_id": 64, "client_info": 72, "client_heartbeat_ms": 80, "reserved0": 84,
}


def mirrored():
    rows = set()
    for struct in (dfkv_client_options_v2, dfkv_open_options3, dfkv_call_options3, dfkv_buffer3, dfkv_key3,
                   dfkv_put_item3, dfkv_get_item3, dfkv_result3):
        rows.add((struct.__name__, ".", 0, ctypes.sizeof(struct)))
        for name, _ in struct._fields_:
            field = getattr(struct, name)
            rows.add((struct.__name__, name, field.offset, field.size))
    return rows


def main():
    ran = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{sys.argv[1]} failed:\n{ran.stderr}")
    lines = [line.split() for line in ran.stdout.splitlines()]
    compiled = {(struct, name, int(offset), int(size)) for struct, name, offset, size in lines}
    differences = sorted(compiled ^ mirrored())
    if differences:
        sys.exit("the header and the ctypes mirror differ:\n" + "\n".join(map(str, differences)))
    v2 = {name: offset for struct, name, offset, _ in compiled if struct == "dfkv_client_options_v2" and name != "."}
    if v2 != V2 or ("dfkv_client_options_v2", ".", 0, 88) not in compiled:
        sys.exit(f"ABI v2 has moved: {v2}")
    print(f"{len(compiled)} rows agree")


if __name__ == "__main__":
    main()
