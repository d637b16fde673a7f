"""What a node says each tenant uses, through restarts, death and eviction, asked of the real program."""

import unittest

from harness import MIB, OK, NodeTest, Wire, key_item, put_item, value_of


def used_by(node):
    """{tenant: bytes}"""
    prefix = 'dfkv_tenant_used_bytes{tenant_hash="'
    return {int(name[len(prefix):-2], 16): int(value) for name, value in node.metrics().items()
            if name.startswith(prefix)}


class TenantUseTest(NodeTest):
    def put(self, node, tenant, numbers, size):
        with Wire(node.port) as wire:
            for number in numbers:
                value = value_of(str(number), size)
                answer = wire.call("put", [put_item(number, value)], payload=value, tenant=tenant)
                self.assertEqual(answer.items[0][1], OK)

    def remove(self, node, tenant, numbers):
        with Wire(node.port) as wire:
            for number in numbers:
                self.assertEqual(wire.call("remove", [key_item(number)], tenant=tenant).items[0][1], OK)

    def count(self, node, tenant, numbers):
        present = 0
        with Wire(node.port) as wire:
            for first in range(0, len(numbers), 1000):
                answer = wire.call("exist", [key_item(number) for number in numbers[first:first + 1000]], tenant=tenant)
                present += sum(item[1] == OK for item in answer.items)
        return present

    def test_exact(self):
        for engine in ("slab", "file"):
            with self.subTest(engine):
                node = self.node(f"--store-engine={engine}", name=engine)
                self.put(node, 1, range(100), 4000)
                self.put(node, 2, range(50), 8000)
                self.put(node, 2**64 - 1, range(10), 40_000)
                want = {1: 100 * 4096, 2: 50 * 8192, 2**64 - 1: 10 * 40_960}
                self.assertEqual(used_by(node), want)
                self.remove(node, 1, range(40))
                want[1] = 60 * 4096
                self.assertEqual(used_by(node), want)
                for how in ("stop", "kill"):
                    node.restart(how)
                    self.assertEqual(used_by(node), want)
                self.remove(node, 2, range(50))
                del want[2]
                self.assertEqual(used_by(node), want)
                node.restart("kill")
                self.assertEqual(used_by(node), want)

    def test_eviction(self):
        node = self.node(cap="8MiB", ram="16MiB")
        for _ in range(2):
            for tenant, size in ((1, 4000), (2, 100_000), (3, 20_000)):
                numbers = range(tenant * 10_000, tenant * 10_000 + 8 * MIB // size)
                self.put(node, tenant, numbers, size)
            slots = {1: 4096, 2: 102_400, 3: 20_480}
            there = {tenant: self.count(node, tenant, range(tenant * 10_000, tenant * 10_000 + 4200)) * slot
                     for tenant, slot in slots.items()}
            used = used_by(node)
            self.assertEqual(sum(used.values()), node.metrics()["dfkv_used_bytes"])
            self.assertGreater(node.metrics()["dfkv_evictions_total"], 0)
            self.assertEqual(used, {tenant: size for tenant, size in there.items() if size})
            node.restart("kill")
            self.assertEqual(used_by(node), used)


if __name__ == "__main__":
    unittest.main()
