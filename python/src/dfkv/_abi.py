"""The structs of dfkv_c_api.h as ctypes sees them. src/capi/layout_test.py compares them with the header."""
import ctypes
from ctypes import c_char_p, c_int32, c_uint32, c_uint64, c_void_p


class OpenOptions(ctypes.Structure):
    """dfkv_open_options3."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("members", c_char_p),
        ("key_namespace", c_char_p),
        ("key_namespace_len", c_uint64),
        ("min_rate_bytes", c_uint64),
        ("stall_ms", c_uint32),
        ("connect_ms", c_uint32),
        ("calls_max", c_uint32),
        ("idle_ms", c_uint32),
        ("peer_cooldown_ms", c_uint32),
        ("peer_cooldown_max_ms", c_uint32),
        ("spin_us", c_uint32),
        ("reserved0", c_uint32),
    ]


class CallOptions(ctypes.Structure):
    """dfkv_call_options3."""

    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("deadline_ms", c_uint32), ("reserved0", c_uint32)]


class Buffer(ctypes.Structure):
    """dfkv_buffer3."""

    _fields_ = [("ptr", c_void_p), ("len", c_uint64)]


class Key(ctypes.Structure):
    """dfkv_key3."""

    _fields_ = [("key", c_void_p), ("key_len", c_uint64)]


class PutItem(ctypes.Structure):
    """dfkv_put_item3."""

    _fields_ = [
        ("key", c_void_p),
        ("key_len", c_uint64),
        ("buffers", c_void_p),
        ("num_buffers", c_uint32),
        ("depth", c_uint32),
    ]


class GetItem(ctypes.Structure):
    """dfkv_get_item3."""

    _fields_ = [
        ("key", c_void_p),
        ("key_len", c_uint64),
        ("buffers", c_void_p),
        ("num_buffers", c_uint32),
        ("flags", c_uint32),
        ("offset", c_uint64),
    ]


class Result(ctypes.Structure):
    """dfkv_result3."""

    _fields_ = [("code", c_int32), ("reserved0", c_uint32), ("length", c_uint64)]


class QueueOptions(ctypes.Structure):
    """dfkv_queue_options3."""

    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("batches_max", c_uint32), ("reserved0", c_uint32)]


class SubmitOptions(ctypes.Structure):
    """dfkv_submit_options3."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("deadline_ms", c_uint32),
        ("reserved0", c_uint32),
        ("user_data", c_uint64),
    ]


class Completion(ctypes.Structure):
    """dfkv_completion3."""

    _fields_ = [
        ("ticket", c_uint64),
        ("user_data", c_uint64),
        ("code", c_int32),
        ("reserved0", c_uint32),
        ("count", c_uint64),
    ]


# By their names in C.
STRUCTS = {
    "dfkv_open_options3": OpenOptions,
    "dfkv_call_options3": CallOptions,
    "dfkv_buffer3": Buffer,
    "dfkv_key3": Key,
    "dfkv_put_item3": PutItem,
    "dfkv_get_item3": GetItem,
    "dfkv_result3": Result,
    "dfkv_queue_options3": QueueOptions,
    "dfkv_submit_options3": SubmitOptions,
    "dfkv_completion3": Completion,
}
