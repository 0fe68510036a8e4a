# SPDX-License-Identifier: Apache-2.0

import dataclasses
import types
import unittest

from sriov_rt.cmd import host
from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from tests.unit import builders
from tests.unit.host import trees

RESOURCE = "amd.com/onload"


def told(**parts):
    return list(host.onload_lines(builders.onload_host(**parts), RESOURCE))


class LinesTest(unittest.TestCase):
    def test_the_nics_and_where_they_are(self):
        found = told(
            onload={"nics": {"eth1": "native", "eth2": "afxdp"}},
            vifs={"pools": {"fast": ("eth1", "eth3"), "slow": ("eth3",)}},
        )
        self.assertEqual(
            [
                "NICs that Onload can use: eth1 (native), eth2 (afxdp)",
                "  on physical network fast: eth1",
                "  on physical network slow: none",
            ],
            found,
        )

    def test_none(self):
        found = told(onload={"nics": {}}, vifs={"pools": {}})
        self.assertEqual(["NICs that Onload can use: none"], found)

    def test_unknown(self):
        spoilt = Unknown("no right")
        found = told(onload={"nics": spoilt}, vifs={"pools": spoilt})
        self.assertEqual(
            ["NICs that Onload can use: unknown (no right)"], found
        )
        (line,) = told(vifs={"pools": spoilt})
        self.assertIn("eth1 (native)", line)

    def test_what_kubernetes_can_allocate(self):
        labels = {"values": types.MappingProxyType({RESOURCE: "1000"})}
        self.assertEqual(
            "Kubernetes can allocate amd.com/onload: 1000",
            told(labels=labels)[-1],
        )
        self.assertNotIn("Kubernetes", "".join(told()))
        spoilt = {"values": Unknown("garbled")}
        self.assertNotIn("Kubernetes", "".join(told(labels=spoilt)))

    def test_json(self):
        facts = builders.onload_host()
        self.assertEqual(
            {
                "nics": {"eth1": "native"},
                "pools": {"fast": ["eth1"]},
                "allocatable": {RESOURCE: None},
            },
            host.onload_plain(facts, RESOURCE),
        )
        unknown = dataclasses.replace(facts.onload, nics=Unknown("no right"))
        found = host.onload_plain(
            dataclasses.replace(facts, onload=unknown), RESOURCE
        )
        self.assertEqual({"_unknown": "no right"}, found["nics"])


class ResourceTest(trees.TreeTest):
    def resource(self) -> str:
        return host.onload_resource(Root(str(self.tree.path)))

    def test_it_is_the_operators(self):
        self.assertEqual(RESOURCE, self.resource())
        self.tree.write(
            "etc/sriov_rt/sriov-rt.conf",
            "[onload]\nresource = solarflare.com/sfc\n",
        )
        self.assertEqual("solarflare.com/sfc", self.resource())

    def test_a_configuration_that_is_garbled(self):
        self.tree.write("etc/sriov_rt/sriov-rt.conf", "[onload\n")
        self.assertEqual(RESOURCE, self.resource())
