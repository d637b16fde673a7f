"""The client against a real node."""
import array
import mmap
import threading

import pytest

import dfkv
from dfkv import Code


def value_of(seed, size):
    return bytes((seed * 31 + i * 7) % 251 for i in range(min(size, 251))) * (size // 251 + 1)


def test_put_get_exists_remove(client):
    assert client.get(b"k") is None
    assert not client.exists(b"k")
    assert client.lookup(b"k") is None
    assert client.put(b"k", b"value") is None
    assert client.get(b"k") == b"value"
    assert client.exists("k")  # str keys are UTF-8
    assert client.lookup(b"k") == 5
    assert client.remove(b"k") is True
    assert client.remove(b"k") is False
    assert client.get(b"k") is None


def test_the_first_value_stays(client):
    client.put(b"k", b"first")
    client.put(b"k", b"other")
    assert client.get(b"k") == b"first"


@pytest.mark.parametrize("size", [1, 100, 65_535, 65_536, 65_537, 2_000_003])
def test_sizes(client, size):
    value = value_of(3, size)[:size]
    client.put(b"k", value)
    assert client.get(b"k") == value
    assert client.get(b"k", size_hint=size) == value
    assert client.get(b"k", size_hint=1) == value


@pytest.mark.parametrize(
    "make",
    [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b)), lambda b: array.array("B", b)],
    ids=["bytes", "bytearray", "memoryview", "writable memoryview", "array"],
)
def test_any_buffer_can_be_put(client, make):
    client.put(b"k", make(b"some bytes"))
    assert client.get(b"k") == b"some bytes"


def test_get_into(client):
    client.put(b"k", b"0123456789")
    room = bytearray(b"x" * 15)
    assert client.get_into(b"k", room) == 10
    assert room == b"0123456789xxxxx"
    assert client.get_into(b"none", room) is None
    middle = memoryview(room)[2:12]
    assert client.get_into(b"k", middle) == 10
    assert room == b"010123456789xxx"
    with mmap.mmap(-1, 4096) as mapped:
        assert client.get_into(b"k", mapped) == 10
        assert mapped[:10] == b"0123456789"


def test_get_into_needs_room_that_can_be_written(client):
    client.put(b"k", b"0123456789")
    with pytest.raises(dfkv.TooSmallError) as error:
        client.get_into(b"k", bytearray(9))
    assert error.value.length == 10
    with pytest.raises(TypeError):
        client.get_into(b"k", b"0123456789")
    with pytest.raises(TypeError):
        client.get_into(b"k", memoryview(bytearray(40))[::2])
    with pytest.raises(TypeError):
        client.get_into(b"k", "text")
    with pytest.raises(TypeError):
        client.put(b"k", 5)
    room = bytearray(10)
    client.get_into(b"k", room)
    room.append(1)  # no buffer is still locked


def test_scatter_and_gather(client):
    client.put(b"k", [b"01", bytearray(b"234"), b"", b"56789"])
    assert client.get(b"k") == b"0123456789"
    head, tail = bytearray(4), bytearray(8)
    assert client.get_into(b"k", [head, tail]) == 10
    assert bytes(head + tail[:6]) == b"0123456789"
    with pytest.raises(dfkv.TooSmallError) as error:
        client.get_into(b"k", (head, bytearray(1)))
    assert error.value.length == 10
    assert client.get_into(b"none", [head]) is None


def test_ranges(client):
    client.put(b"k", b"0123456789")
    assert client.get_range(b"k", 2, 3) == b"234"
    assert client.get_range(b"k", 8, 100) == b"89"
    assert client.get_range(b"k", 10, 5) == b""
    assert client.get_range(b"none", 0, 5) is None
    with pytest.raises(dfkv.InvalidError):
        client.get_range(b"k", 11, 1)


def test_match_prefix(client):
    keys = [f"block-{i}" for i in range(20)]
    assert client.match_prefix(keys) == 0
    client.batch_put(keys, [b"v"] * 20, depths=0)
    assert client.match_prefix(keys) == 20
    client.remove(keys[7])
    assert client.match_prefix(keys) == 7
    assert client.match_prefix([]) == 0
    with pytest.raises(TypeError):
        client.match_prefix(b"one key")


def test_batches(client):
    keys = [b"a", b"b", b"c"]
    results = client.batch_put(keys, [b"1" * 10, [b"2" * 70_000, b"2"], bytearray(b"3")], depths=[0, 1, 2])
    assert [r.code for r in results] == [Code.OK] * 3
    assert client.batch_get([b"a", b"none", b"b", b"c"]) == [b"1" * 10, None, b"2" * 70_001, b"3"]
    rooms = [bytearray(10), bytearray(5), bytearray(9)]
    results = client.batch_get_into([b"a", b"none", b"b"], rooms)
    assert results == [(Code.OK, 10), (Code.NOT_FOUND, 0), (Code.TOO_SMALL, 70_001)]
    assert results[0].ok and not results[1].ok
    assert rooms[0] == b"1" * 10
    assert [r.code for r in client.batch_exists([b"a", b"none"])] == [Code.OK, Code.NOT_FOUND]
    assert client.batch_lookup([b"b"]) == [(Code.OK, 70_001)]
    assert [r.code for r in client.batch_remove([b"a", b"a2"])] == [Code.OK, Code.NOT_FOUND]
    assert client.batch_put([], []) == []
    assert client.batch_get([]) == []


def test_a_bad_item_fails_alone(client):
    results = client.batch_put([b"a", b"", b"c"], [b"1", b"2", b""])
    assert [r.code for r in results] == [Code.OK, Code.INVALID, Code.INVALID]
    with pytest.raises(ValueError):
        client.batch_put([b"a"], [])
    with pytest.raises(ValueError):
        client.batch_get_into([b"a"], [])
    with pytest.raises(ValueError):
        client.batch_put([b"a"], [b"1"], depths=[1, 2])


def test_errors_have_their_classes(client, node):
    with pytest.raises(dfkv.InvalidError) as error:
        client.put(b"k", b"")
    assert isinstance(error.value, ValueError) and error.value.code == Code.INVALID
    assert "dfkv_put3" in str(error.value)
    with pytest.raises(dfkv.TooLargeError):
        client.put(b"k", bytes(100 << 20))
    with pytest.raises(dfkv.InvalidError, match="name=ip:port"):
        dfkv.Client(node.address, namespace=b"n")
    with pytest.raises(dfkv.InvalidError, match="key_namespace"):
        dfkv.Client(f"a={node.address}", namespace=b"")
    with pytest.raises(ValueError):
        client.get(b"k", deadline_ms=0)
    with pytest.raises(dfkv.LibraryNotFound, match="no-such-library"):
        dfkv.Client("a=127.0.0.1:1", b"n", library="/no-such-library.so")


def test_a_node_that_is_not_there(unused_port="1"):
    with dfkv.Client(f"a=127.0.0.1:{unused_port}", b"n") as client:
        with pytest.raises(dfkv.UnavailableError) as error:
            client.get(b"k")
        assert isinstance(error.value, ConnectionError)
        assert client.match_prefix([b"k"]) == 0
        assert client.batch_get([b"k"]) == [None]
        assert client.batch_get_into([b"k"], [bytearray(1)]) == [(Code.UNAVAILABLE, 0)]


def test_a_closed_client(node):
    client = dfkv.Client(f"a={node.address}", b"n")
    client.close()
    client.close()
    with pytest.raises(dfkv.InvalidError, match="closed"):
        client.get(b"k")
    with pytest.raises(dfkv.InvalidError, match="closed"):
        client.stats()


def test_namespaces_are_apart(node, client):
    client.put(b"k", b"mine")
    with dfkv.Client(f"node={node.address}", namespace=b"another\0one") as other:
        assert other.get(b"k") is None


def test_threads_share_a_client(client):
    failures = []

    def work(number):
        for i in range(50):
            key, value = f"{number}-{i}", value_of(number, 5000)
            client.put(key, value)
            if client.get(key) != value:
                failures.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_stats(client):
    client.put(b"k", b"value")
    text = client.stats()
    assert 'dfkv_client_op_requests_total{op="put"} 1' in text
    assert "dfkv_client_ring_members 1" in text
    assert "dfkv_objects" in client.node_stats("node")
    with pytest.raises(dfkv.InvalidError):
        client.node_stats("no such node")


def test_version():
    assert dfkv.library_version().count(".") == 2


def test_numpy(client):
    numpy = pytest.importorskip("numpy")
    value = numpy.arange(10_000, dtype=numpy.float32).reshape(100, 100)
    client.put(b"k", value)
    into = numpy.zeros_like(value)
    assert client.get_into(b"k", into) == value.nbytes
    assert (into == value).all()
    client.put(b"rows", [value[3], value[5]])
    assert client.get(b"rows") == value[3].tobytes() + value[5].tobytes()
    with pytest.raises(TypeError):
        client.put(b"x", value[:, ::2])
    with pytest.raises(TypeError):
        client.put(b"x", value.T)
    into.flags.writeable = False
    with pytest.raises(TypeError):
        client.get_into(b"k", into)
    dates = numpy.array(["2020-01-01", "2021-02-03"], dtype="datetime64[D]")  # no buffer protocol
    client.put(b"dates", dates)
    received = numpy.zeros_like(dates)
    client.get_into(b"dates", received)
    assert (received == dates).all()


class FakeTensor:
    """What the client uses of torch.Tensor; torch itself is large."""

    def __init__(self, data, device="cpu", contiguous=True):
        self.data = (array.array("B", data))
        self.device = type("Device", (), {"type": device, "__str__": lambda _: device})()
        self.contiguous = contiguous

    def data_ptr(self):
        return self.data.buffer_info()[0]

    def is_contiguous(self):
        return self.contiguous

    def numel(self):
        return len(self.data)

    def element_size(self):
        return 1


def test_tensors(client):
    client.put(b"k", FakeTensor(b"0123456789"))
    room = FakeTensor(bytes(10))
    assert client.get_into(b"k", room) == 10
    assert room.data.tobytes() == b"0123456789"
    with pytest.raises(TypeError, match="host memory"):
        client.put(b"k", FakeTensor(b"0", device="cuda"))
    with pytest.raises(TypeError, match="contiguous"):
        client.put(b"k", FakeTensor(b"0", contiguous=False))


def test_torch(client):
    torch = pytest.importorskip("torch")
    value = torch.arange(1000, dtype=torch.bfloat16)
    client.put(b"k", value)
    into = torch.zeros_like(value)
    assert client.get_into(b"k", into) == 2000
    assert torch.equal(into, value)
