# SPDX-License-Identifier: Apache-2.0

"""Networks of pods: definitions, and what a node makes of its own."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

from sriov_rt.magnum import labels
from sriov_rt.magnum import node
from sriov_rt.magnum import pod_networks
from tests.unit.magnum import shapes

PODS = {
    "sriov_rt_networks": "fast0 fast1",
    "sriov_rt_pod_vif": "macvlan",
    "sriov_rt_pod_subnets": "172.20.0.0/16 172.21.0.0/16",
    "sriov_rt_pods_per_node": "16",
}
IDS = {"fast0": shapes.FAST0, "fast1": shapes.FAST1}


def parsed(**changes):
    """Return the networks of pods of labels."""
    return labels.parse({**PODS, **changes}).pod_networks


class DefinitionTest(unittest.TestCase):
    def _documents(self, *nodes):
        addon = pod_networks.addon(nodes)
        return list(yaml.safe_load_all(addon.manifests["networks.yaml"]))

    def test_one_for_each_network_of_some_node(self):
        found = self._documents(
            parsed().node_labels(),
            parsed(sriov_rt_networks="fast1 fast3").node_labels(),
            {"rack": "7"},
        )
        self.assertEqual(
            ["fast0", "fast1", "fast3"],
            [each["metadata"]["name"] for each in found],
        )
        # The nodes' own files have the configuration.
        self.assertFalse([each for each in found if "spec" in each])

    def test_a_network_of_vfs_has_another_name_and_a_resource(self):
        vf = parsed(
            sriov_rt_networks="fast-0 fast1", sriov_rt_pod_vif="vf"
        ).node_labels()
        found = self._documents(parsed().node_labels(), vf)
        by_name = {each["metadata"]["name"]: each for each in found}
        self.assertEqual(
            {"fast0", "fast1", "fast-0-vf", "fast1-vf"}, set(by_name)
        )
        self.assertEqual(
            {
                "k8s.v1.cni.cncf.io/resourceName": (
                    "sriov-rt.openstack.org/fast_0"
                )
            },
            by_name["fast-0-vf"]["metadata"]["annotations"],
        )
        self.assertNotIn("annotations", by_name["fast1"]["metadata"])

    def test_none_without_pods(self):
        addon = pod_networks.addon([{}])
        self.assertFalse(addon.nodes.matches({}))


class NodeTest(unittest.TestCase):
    """The script as nodes get it, below a directory of the test."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.root = pathlib.Path(made.name)
        (self.root / "bin").mkdir()
        self.addresses = {}
        for number in range(2):
            self._interface(f"ens{number}", number)
        self._interface("vlan", 0, hardware=False)
        self._program("cloud-init", f"cat {self.root}/network.json")
        self._program("ip", f"cat {self.root}/$6.json")
        (self.root / "network.json").write_text(
            json.dumps(
                {
                    "links": [
                        {"id": f"tap{n}", "ethernet_mac_address": mac(n)}
                        for n in range(3)
                    ],
                    "networks": [
                        {
                            "id": f"network{n}",
                            "type": "ipv4_dhcp",
                            "link": f"tap{n}",
                            "network_id": network,
                        }
                        for n, network in enumerate(IDS.values())
                    ],
                }
            )
        )

    def _program(self, name, text):
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def _interface(self, name, number, hardware=True):
        path = self.root / "sys/class/net" / name
        path.mkdir(parents=True)
        (path / "address").write_text(mac(number) + "\n")
        if hardware:
            device = self.root / f"sys/devices/0000:00:0{number}.0"
            device.mkdir(parents=True)
            (path / "device").symlink_to(device)
        self._address(name, f"10.0.{number}.{number + 5}")

    def _address(self, name, local):
        (self.root / f"{name}.json").write_text(
            json.dumps(
                [
                    {
                        "addr_info": [
                            {
                                "scope": "global",
                                "local": local,
                                "prefixlen": 24,
                            }
                        ]
                    }
                ]
                if local
                else []
            )
        )

    def _run(self, pods, patience=True):
        script, config = pods.bootstrap(IDS)["files"]
        self.assertEqual(node.NETWORK_CONFIG, config["path"])
        path = self.root / "etc/sriov-rt/pod-networks.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config["content"])
        text = script["content"]
        if not patience:
            text = text.replace("PATIENCE_S = 120", "PATIENCE_S = -1")
        done = subprocess.run(
            (sys.executable, "-IS", "-c", text),
            check=False,
            capture_output=True,
            text=True,
            env={
                "PATH": f"{self.root}/bin:{os.defpath}",
                "SRIOV_RT_ROOT": str(self.root),
            },
        )
        return done.returncode, done.stderr

    def _conf(self, name):
        path = self.root / f"etc/cni/multus/net.d/{name}.conf"
        return json.loads(path.read_text())

    def test_the_nodes_own_range_and_interface(self):
        self.assertEqual((0, ""), self._run(parsed()))
        self.assertEqual(
            {
                "cniVersion": "0.3.1",
                "name": "fast1",
                "type": "macvlan",
                "master": "ens1",
                "mode": "bridge",
                "ipam": {
                    "type": "host-local",
                    "subnet": "172.21.0.0/16",
                    "rangeStart": "172.21.0.96",
                    "rangeEnd": "172.21.0.111",
                },
            },
            self._conf("fast1"),
        )
        self.assertFalse((self.root / "etc/pcidp").exists())

    def test_no_two_nodes_share_an_address(self):
        taken = set()
        for host in range(1, 255):
            self._address("ens0", f"10.0.0.{host}")
            if host % 50 == 1:
                self.assertEqual(0, self._run(parsed())[0])
                share = self._conf("fast0")["ipam"]
                ends = (share["rangeStart"], share["rangeEnd"])
                self.assertFalse(taken & set(ends))
                taken |= set(ends)

    def test_ipvlan(self):
        self._run(parsed(sriov_rt_pod_vif="ipvlan"))
        conf = self._conf("fast0")
        self.assertEqual(("ipvlan", "l2"), (conf["type"], conf["mode"]))

    def test_vfs_for_pods(self):
        self.assertEqual((0, ""), self._run(parsed(sriov_rt_pod_vif="vf")))
        self.assertEqual("host-device", self._conf("fast0-vf")["type"])
        plugin = json.loads((self.root / "etc/pcidp/config.json").read_text())
        self.assertEqual(
            {
                "resourceName": "fast0",
                "resourcePrefix": "sriov-rt.openstack.org",
                "selectors": [{"pciAddresses": ["0000:00:00.0"]}],
            },
            plugin["resourceList"][0],
        )

    def test_a_subnet_without_room_for_this_node(self):
        self._address("ens0", "10.0.0.254")
        code, said = self._run(
            parsed(sriov_rt_pod_subnets="10.1.0.0/24 172.21.0.0/16")
        )
        self.assertEqual(1, code)
        self.assertIn("choose a larger subnet", said)

    def test_a_port_that_is_not_there(self):
        (self.root / "network.json").write_text('{"links":[],"networks":[]}')
        code, said = self._run(parsed())
        self.assertEqual(1, code)
        self.assertIn(f"no port on network {shapes.FAST0}", said)

    def test_an_interface_without_an_address(self):
        self._address("ens0", None)
        code, said = self._run(parsed(), patience=False)
        self.assertEqual(1, code)
        self.assertIn("ens0 has no IPv4 address", said)

    def test_metadata_that_is_nonsense(self):
        for text in ("", "[]", "{}", '{"networks": [{}]}', "null"):
            (self.root / "network.json").write_text(text)
            code, said = self._run(parsed())
            with self.subTest(text):
                self.assertEqual(1, code)
                self.assertIn("sriov-rt: ", said)
                self.assertNotIn("Traceback", said)


def mac(number):
    """Return the MAC address of a port."""
    return f"fa:16:3e:00:00:0{number}"
