# SPDX-License-Identifier: Apache-2.0

"""Which ports are on which VF."""

import unittest
from unittest import mock

from sriov_rt.nic import use
from sriov_rt.vif import errors
from sriov_rt.vif import tenants
from sriov_rt.vif.model import Kind
from sriov_rt.vif.records import Records
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked


class TenantsTest(fakes.HostTest):
    def test_ports_of_all_kinds_in_all_namespaces(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        self.plugger.plug(
            asked(port=OTHER, parent="enp1s0v0", namespace="box2", owner="you")
        )
        self.plugger.plug(
            asked(Kind.VF, port=fakes.port(3), parent="enp1s0v1", name="p0")
        )
        records = Records(self.directory).all()
        self.assertEqual(
            {
                "0000:01:10.0": [(PORT, "me"), (OTHER, "you")],
                "0000:01:10.1": [(fakes.port(3), "me")],
            },
            tenants.of(records),
        )

    def test_who_uses_what_and_what_is_unseen(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        for name, parent in (("cni0", "enp1s0v1"), ("gone", "enp1s0v2")):
            index = self.host.named(parent).index
            self.host.add(
                name,
                namespace="box2",
                kind="macvlan",
                mode="bridge",
                parent=index,
            )
        self.host.hide("gone")
        found = {
            address: use.why_not(each, use.Act.RESET)
            for address, each in tenants.uses_among(
                self.vfs.list(), Records(self.directory).all(), self.links
            ).items()
        }
        self.assertEqual(
            {
                "0000:01:10.0": (f"port {PORT} of me",),
                "0000:01:10.1": ("macvlan cni0 in box2",),
                "0000:01:10.2": ("something that cannot be seen",),
            },
            found,
        )


class HereTest(unittest.TestCase):
    def test_records_that_cannot_be_read_are_told_of(self):
        told = []
        broken = errors.RecordsBroken("/run", detail="Permission denied")
        with mock.patch.object(Records, "every", side_effect=broken):
            self.assertEqual({}, tenants.of_host((), told.append))
        self.assertIn("Permission denied", told[0])
