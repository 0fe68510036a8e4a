# SPDX-License-Identifier: Apache-2.0

"""Ports that the played provider makes are those of the real one."""

import unittest
from unittest import mock

from sriov_rt.magnum import nodegroup
from tests.testbed.kube import openstack_provider
from tests.unit.magnum import shapes
from tests.unit.magnum.test_nodegroup import NETWORKS
from tests.unit.magnum.test_nodegroup import POD_NETWORKS
from tests.unit.magnum.test_nodegroup import SETTINGS


class PortTest(unittest.TestCase):
    def made(self, port):
        """Return what Neutron is asked for."""
        api = mock.Mock(current_project_id="p")
        api.network.create_port.return_value.id = "port"
        api.network.find_security_group.return_value.id = "managed"
        with mock.patch.object(openstack_provider, "DynamicClient"):
            provider = openstack_provider.Provider(
                None, api, None, "", "ordinary"
            )
        provider._port("machine", port)  # noqa: SLF001
        return api.network.create_port.call_args.kwargs

    def test_no_group_and_an_empty_list_are_the_clusters_own(self):
        for port in ({}, {"securityGroups": []}):
            found = self.made({"network": {"id": "n"}, **port})
            self.assertEqual(["managed"], found["security_group_ids"])
            self.assertNotIn("is_port_security_enabled", found)
        found = self.made({"securityGroups": [{"id": "own"}]})
        self.assertEqual(["own"], found["security_group_ids"])

    def test_ports_of_our_nodegroups_have_no_group(self):
        for labels, profile in (
            (NETWORKS, None),
            (POD_NETWORKS, {"trusted": True}),
        ):
            rendered = nodegroup.render(
                shapes.nodegroup(labels=labels),
                shapes.REALTIME_VF,
                SETTINGS,
                shapes.networks,
            )
            _, *ports = rendered.values["machineNetworking"]["ports"]
            for each in map(self.made, ports):
                self.assertIs(False, each["is_port_security_enabled"])
                self.assertNotIn("security_group_ids", each)
                self.assertEqual(profile, each.get("binding_profile"))
