"""A real node on a free port for the whole run: $DFKV_SERVER, else dfkv_server in $DFKV_BUILD/bin, else the
one of ../build/release. Without any of them the tests that need a node fail: they are what this is for."""
import os
import pathlib
import select
import subprocess
import uuid

import pytest

import dfkv

ROOT = pathlib.Path(__file__).resolve().parents[2]


def server_path():
    if os.environ.get("DFKV_SERVER"):
        return pathlib.Path(os.environ["DFKV_SERVER"])
    build = pathlib.Path(os.environ.get("DFKV_BUILD", ROOT / "build/release"))
    return next((p for p in (build / "bin/dfkv_server", build.parent / "bin/dfkv_server") if p.exists()), build)


class Node:
    """A dfkv_server process."""

    def __init__(self, directory):
        self.process = subprocess.Popen(
            [server_path(), f"--dir={directory}", "--cap=256MiB", "--ram-tier-bytes=96MiB", "--log=error", "--port=0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        line = self.process.stdout.readline() if ready else ""
        if not line.startswith("PORT "):
            self.stop()
            raise RuntimeError(f"the node did not start; it said {line!r}")
        self.address = f"127.0.0.1:{int(line.split()[1])}"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("node"))
    yield node
    node.stop()


@pytest.fixture
def client(node):
    """A client with a namespace of its own."""
    with dfkv.Client(f"node={node.address}", namespace=f"test-{uuid.uuid4()}", stall_ms=10_000) as client:
        yield client
