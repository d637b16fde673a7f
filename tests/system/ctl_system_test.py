"""dfkvctl, dfkv_smoke and dfkv_discover_smoke as a user runs them, against a real node.

$DFKV_PROGRAMS is the folder of the programs."""
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import unittest

PROGRAMS = pathlib.Path(os.environ["DFKV_PROGRAMS"])


def run(program, *arguments):
    return subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True, check=False, timeout=120)


class CtlTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="dfkv-ctl-"))
        cls.node = subprocess.Popen(
            [PROGRAMS / "dfkv_server", f"--dir={cls.folder / 'data'}", "--cap=128MiB", "--ram-tier-bytes=64MiB",
             "--log=error", "--port=0"], stdout=subprocess.PIPE, text=True)
        ready, _, _ = select.select([cls.node.stdout], [], [], 60)
        assert ready, "the node did not start"
        cls.members = f"--members=n1=127.0.0.1:{int(cls.node.stdout.readline().split()[1])}"

    @classmethod
    def tearDownClass(cls):
        cls.node.kill()
        cls.node.wait()
        cls.node.stdout.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def ctl(self, *arguments, status=0):
        ran = run("dfkvctl", self.members, "--client-stall-ms=10s", *arguments)
        self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
        return ran.stdout

    def test_one_object(self):
        self.assertEqual(self.ctl("exist", "k", status=1), "NotFound\n")
        self.assertEqual(self.ctl("put", "k", "some value"), "Ok\n")
        self.assertEqual(self.ctl("get", "k"), "some value")
        self.assertEqual(self.ctl("exist", "k"), "Ok 10 bytes\n")
        self.assertEqual(json.loads(self.ctl("get", "k", "--json")), {"code": "Ok", "length": 10, "value": "some value"})
        self.assertEqual(self.ctl("get", "k", "--namespace=other", status=1), "NotFound\n")
        self.assertEqual(json.loads(self.ctl("remove", "k", "--json")), {"code": "Ok"})
        self.assertEqual(json.loads(self.ctl("remove", "k", "--json", status=1)), {"code": "NotFound"})

    def test_a_value_on_a_terminal_ends_its_line(self):
        self.ctl("put", "shown", "some value")
        master, terminal = os.openpty()
        subprocess.run([PROGRAMS / "dfkvctl", self.members, "--client-stall-ms=10s", "get", "shown"], stdout=terminal,
                       check=True, timeout=120)
        os.close(terminal)
        self.assertEqual(os.read(master, 100), b"some value\r\n")
        os.close(master)

    def test_files(self):
        source, target = self.folder / "in", self.folder / "out"
        source.write_bytes(bytes(range(256)) * 1000)
        self.ctl("put", "file", f"--file={source}")
        self.assertEqual(self.ctl("get", "file", f"--file={target}"), "Ok 256000 bytes\n")
        self.assertEqual(target.read_bytes(), source.read_bytes())

    def test_stat_and_tenants(self):
        self.assertIn("dfkv_objects", self.ctl("stat"))
        self.assertIn("dfkv_objects", json.loads(self.ctl("stat", "n1", "--json"))["n1"])
        self.ctl("stat", "no-such-member", status=1)

    def test_tenants(self):
        def used():
            return {row["tenant_hash"]: row["used_bytes"] for row in json.loads(self.ctl("ls-tenants", "--json"))}

        before = used()
        self.ctl("put", "one", "x" * 5000, "--namespace=tenants-test")
        self.ctl("put", "two", "x" * 100, "--namespace=tenants-test")
        new = {tenant: size for tenant, size in used().items() if tenant not in before}
        self.assertEqual(list(new.values()), [8192 + 4096])
        [tenant] = new
        self.assertRegex(tenant, "^[0-9a-f]{16}$")
        self.assertIn(f"{tenant} 12288\n", self.ctl("ls-tenants"))
        self.ctl("remove", "one", "--namespace=tenants-test")
        self.assertEqual(used()[tenant], 4096)
        self.ctl("remove", "two", "--namespace=tenants-test")
        self.assertEqual(used(), before)

    def test_wrong_usage(self):
        for arguments in (["put", "k"], ["get"], ["nonsense"], ["get", "k", "--no-such-flag"], []):
            self.ctl(*arguments, status=2)
        self.assertEqual(run("dfkvctl", "get", "k").returncode, 2)  # no members
        self.assertEqual(run("dfkvctl", "--members=nonsense", "get", "k").returncode, 2)
        for program in ("dfkvctl", "dfkv_smoke", "dfkv_discover_smoke"):
            self.assertEqual(run(program, "--help").returncode, 0)

    def test_a_dead_node(self):
        ran = run("dfkvctl", "--members=a=127.0.0.1:1", "get", "k")
        self.assertEqual((ran.returncode, ran.stdout), (1, "Unavailable\n"))

    def test_smoke(self):
        for program in ("dfkv_smoke", "dfkv_discover_smoke"):
            good = run(program, self.members, "--client-stall-ms=10s", "--size=5000")
            self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
            self.assertTrue(good.stdout.splitlines()[-1].startswith("PASS"), good.stdout)
            bad = run(program, "--members=a=127.0.0.1:1")
            self.assertEqual(bad.returncode, 1, bad.stdout)
            self.assertTrue(bad.stdout.splitlines()[-1].startswith("FAIL"), bad.stdout)


if __name__ == "__main__":
    unittest.main()
