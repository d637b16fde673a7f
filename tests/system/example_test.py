"""The programs of docs/examples against a node."""

import os
import subprocess
import unittest

from harness import NodeTest


class AsyncExampleTest(NodeTest):
    def test_every_block_comes_back(self):
        node = self.node()
        ran = subprocess.run([os.environ["DFKV_EXAMPLE_ASYNC"], f"n0=127.0.0.1:{node.port}"], capture_output=True,
                             text=True, timeout=120, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("64 blocks, 0 wrong; the last batch came back as ", ran.stdout)

    def test_a_node_that_is_not_there_is_an_error(self):
        ran = subprocess.run([os.environ["DFKV_EXAMPLE_ASYNC"], "n0=127.0.0.1:1"], capture_output=True, text=True,
                             timeout=120, check=False)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("Unavailable", ran.stderr)


if __name__ == "__main__":
    unittest.main()
