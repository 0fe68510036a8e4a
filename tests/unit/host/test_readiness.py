# SPDX-License-Identifier: Apache-2.0

import dataclasses
import types
import unittest

from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.facts import NicFacts
from sriov_rt.facts import decisive
from sriov_rt.host import readiness
from tests.unit import builders

WHY = Unknown("unreadable")


def codes(mode: str, host: HostFacts) -> list[str]:
    return [reason.code for reason in readiness.reasons(mode, host)]


def with_module(host: HostFacts, name: str, state: str) -> HostFacts:
    modules = types.MappingProxyType({**host.kernel.modules, name: state})
    kernel = dataclasses.replace(host.kernel, modules=modules)
    return dataclasses.replace(host, kernel=kernel)


class ModesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        virt = {"kvm": True, "iommu_groups": 12}
        nics = {"nics": (builders.nic(),)}
        onload = {
            "modules": ("onload",),
            "devices": ("/dev/onload",),
            "library": "/usr/lib64/libonload.so",
            "nics": {"eth1": "native"},
            "library_fits": True,
        }
        self.host = builders.realtime_host(virt=virt, nics=nics, onload=onload)
        for name in ("macvlan", "vfio_pci"):
            self.host = with_module(self.host, name, "available")

    def virt(self, **changes) -> HostFacts:
        virt = dataclasses.replace(self.host.virt, **changes)
        return dataclasses.replace(self.host, virt=virt)

    def nics(self, *nics, unknown=None) -> HostFacts:
        found = NicFacts(nics if unknown is None else unknown)
        return dataclasses.replace(self.host, nics=found)

    def test_host_that_serves_every_mode(self):
        for mode in readiness.MODES:
            with self.subTest(mode):
                self.assertEqual([], codes(mode, self.host))

    def test_iommu_is_for_passthrough_alone(self):
        host = self.virt(iommu_groups=0)
        self.assertEqual(["iommu_off"], codes("passthrough", host))
        self.assertEqual([], codes("container-vf", host))
        self.assertEqual([], codes("macvlan", host))

    def test_kvm_is_for_passthrough_alone(self):
        host = self.virt(kvm=False)
        self.assertEqual(["kvm_missing"], codes("passthrough", host))
        self.assertEqual([], codes("container-vf", host))

    def test_virt_unknown(self):
        host = self.virt(kvm=WHY, iommu_groups=WHY)
        self.assertEqual(["fact_unknown"] * 2, codes("passthrough", host))

    def test_modules(self):
        for mode, name in (
            ("passthrough", "vfio_pci"),
            ("macvlan", "macvlan"),
        ):
            with self.subTest(mode):
                host = with_module(self.host, name, "absent")
                (reason,) = readiness.reasons(mode, host)
                self.assertEqual("module_missing", reason.code)
                self.assertIn(name, reason.message)

    def test_parents_that_are_not_there(self):
        def host(pools):
            gone = {"physnet1": ("veth0",)}
            vifs = dataclasses.replace(
                self.host.vifs, pools=pools, missing=gone
            )
            return dataclasses.replace(self.host, vifs=vifs)

        none, one = host({"physnet1": ()}), host({"physnet1": ("eno1",)})
        self.assertEqual(["parents_missing"], codes("macvlan", none))
        self.assertEqual([], codes("macvlan", one))
        for each in (none, one):
            found = readiness.judge(decisive(each), placed_by_nova=False)
            self.assertIn(
                "parents_missing", [reason.code for reason in found.should]
            )
        # What is in the way is told once.
        further = tuple(readiness.reasons("macvlan", none))
        found = readiness.judge(
            decisive(none), placed_by_nova=False, further=further
        )
        self.assertEqual(1, [*found.must, *found.should].count(further[0]))

    def test_onload(self):
        onload = dataclasses.replace(
            self.host.onload,
            devices=(),
            library_fits=False,
            version="9.0",
            nics={},
        )
        host = dataclasses.replace(self.host, onload=onload)
        self.assertEqual(
            ["onload_unusable", "onload_other_release", "onload_no_nic"],
            codes("onload", host),
        )

    def test_no_nic(self):
        for mode in readiness.MODES:
            with self.subTest(mode):
                self.assertEqual(
                    ["host_without_nic"], codes(mode, self.nics())
                )

    def test_nics_that_are_not_on_ethernet(self):
        # InfiniBand's VFs take no MAC and no VLAN, and the kernel makes
        # macvlans on ARPHRD_ETHER alone (macvlan_port_create in macvlan.c).
        for link in ("infiniband", "wifi", "type 512"):
            for mode in readiness.MODES:
                with self.subTest(mode, link=link):
                    host = self.nics(builders.nic(name="ib0", link=link))
                    (reason,) = readiness.reasons(mode, host)
                    self.assertEqual("nic_not_ethernet", reason.code)
                    self.assertIn(f"ib0: {link}", reason.message)
                    # No other port has a type that could be set.
                    self.assertIn("of an InfiniBand port", reason.message)

    def test_one_nic_on_ethernet_is_enough(self):
        other = builders.nic(name="ib0", link="infiniband")
        host = self.nics(other, builders.nic())
        for mode in readiness.MODES:
            with self.subTest(mode):
                self.assertEqual([], codes(mode, host))

    def test_vfs_of_infiniband_beside_an_ethernet_nic_without_any(self):
        other = builders.nic(name="ib0", link="infiniband")
        plain = builders.nic(sriov_totalvfs=0, sriov_numvfs=0, vfs=())
        host = self.nics(other, plain)
        self.assertEqual(["nic_not_ethernet"], codes("container-vf", host))
        self.assertEqual([], codes("macvlan", host))

    def test_nic_without_sriov(self):
        host = self.nics(
            builders.nic(sriov_totalvfs=0, sriov_numvfs=0, vfs=())
        )
        self.assertEqual(["host_without_nic"], codes("container-vf", host))
        self.assertEqual(["host_without_nic"], codes("passthrough", host))
        self.assertEqual([], codes("macvlan", host))

    def test_no_vfs_made(self):
        host = self.nics(builders.nic(sriov_numvfs=0, vfs=()))
        self.assertEqual(["no_vfs"], codes("container-vf", host))
        (found,) = readiness.reasons("passthrough", host)
        self.assertEqual("no_vfs", found.code)
        self.assertIn("run 'sriov-rt vf provision'", found.message)
        self.assertNotIn("sriov_numvfs", found.message)

    def test_nics_unknown(self):
        for mode in readiness.MODES:
            with self.subTest(mode):
                self.assertEqual(
                    ["fact_unknown"], codes(mode, self.nics(unknown=WHY))
                )

    def test_vfs_unknown(self):
        for changes in (
            {"vfs": WHY},
            {"vfs": (), "sriov_numvfs": WHY},
            {"vfs": (), "sriov_totalvfs": WHY},
        ):
            with self.subTest(changes):
                host = self.nics(builders.nic(**changes))
                self.assertEqual(["fact_unknown"], codes("passthrough", host))
                self.assertEqual(["fact_unknown"], codes("container-vf", host))

    def test_containers_need_one_vf_with_a_network_driver(self):
        first, second = builders.nic().vfs
        for drivers, wanted in (
            ((None, None), ["vfs_without_driver"]),
            (("vfio-pci", None), ["vfs_without_driver"]),
            (("igbvf", "vfio-pci"), []),
        ):
            with self.subTest(drivers):
                vfs = tuple(
                    dataclasses.replace(vf, driver=driver)
                    for vf, driver in zip(
                        (first, second), drivers, strict=True
                    )
                )
                host = self.nics(builders.nic(vfs=vfs))
                self.assertEqual(wanted, codes("container-vf", host))
                self.assertEqual([], codes("passthrough", host))

    def test_long_list_of_vfs_is_cut(self):
        vf = dataclasses.replace(builders.nic().vfs[0], driver=None)
        for count, cut in ((8, False), (9, True), (64, True)):
            host = self.nics(builders.nic(vfs=(vf,) * count))
            (reason,) = readiness.reasons("container-vf", host)
            with self.subTest(count):
                self.assertEqual(8, reason.message.count(vf.address))
                self.assertEqual(cut, "…" in reason.message)
