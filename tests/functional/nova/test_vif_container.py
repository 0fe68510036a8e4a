# SPDX-License-Identifier: Apache-2.0

from typing import Any

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt

from sriov_rt.vif.model import Kind
from tests.functional.nova import base
from tests.functional.nova.test_vif import VifTest

#: Containers have no emulator, and no realtime vCPUs of Nova's.
REALTIME = {
    "sriov_rt:realtime": "required",
    "sriov_rt:kernel": "preempt_rt",
    "hw:cpu_policy": "dedicated",
}


_parse = fakelibvirt.Domain._parse_definition


def _parse_definition(domain: fakelibvirt.Domain, xml: str) -> Any:
    # Nova's fake can't write a domain that has no disk.
    domain.given = xml
    return _parse(domain, xml)


class ContainerTest(VifTest):
    """A cloud of LXC containers."""

    VIRT_TYPE = "lxc"

    def setUp(self) -> None:
        super().setUp()
        for name, value in (
            ("Connection.getType", lambda _: "LXC"),
            ("Domain._parse_definition", _parse_definition),
            ("Domain.XMLDesc", lambda domain, flags: domain.given),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f"nova.tests.fixtures.libvirt.{name}", value
                )
            )
        for name in ("setup_container", "teardown_container"):
            self.useFixture(
                fixtures.MockPatch(
                    f"nova.virt.disk.api.{name}", return_value=None
                )
            )
        self.useFixture(
            fixtures.MockPatch("nova.virt.disk.api.clean_lxc_namespace")
        )
        self.start_host(base.realtime_host("rt-1"))

    def moved(self) -> str:
        """Return the interface that libvirt moves into the container."""
        (found,) = self.domain().iter("hostdev")
        self.assertEqual(
            {"mode": "capabilities", "type": "net"}, dict(found.attrib)
        )
        return found.findtext("source/interface")


class ContainerPortTest(ContainerTest):
    def test_it_gets_the_macvlan_itself(self):
        server = self.serve({})
        (asked,) = self.pluggers.asked
        self.assertIs(Kind.MACVLAN, asked.kind)
        self.assertEqual(server["id"], asked.owner)
        self.assertIsNone(asked.namespace)
        self.assertEqual(self.name, self.moved())
        self.assertEqual([], self.domain().findall("devices/interface"))
        self.assertEqual("lxc", self.domain().get("type"))
        self.assertEqual("exe", self.domain().findtext("os/type"))

    def test_it_gets_a_whole_vf(self):
        self.bind(kind="vf", mode=None)
        self.serve({})
        self.assertIs(Kind.VF, self.pluggers.asked[0].kind)
        self.assertEqual(self.name, self.moved())

    def test_it_gets_an_ipvlan(self):
        self.bind(kind="ipvlan", mode="l3s")
        self.serve({})
        (asked,) = self.pluggers.asked
        self.assertEqual((Kind.IPVLAN, "l3s"), (asked.kind, asked.mode))
        self.assertIsNone(asked.mac)

    def test_delete_leaves_nothing(self):
        self._delete_server(self.serve({}))
        self.assertEqual({}, self.pluggers.ports)

    def test_hard_reboot_plugs_anew(self):
        server = self.serve({})
        self._reboot_server(server, hard=True)
        self.assertEqual(2, len(self.pluggers.asked))
        self.assertEqual(self.name, self.moved())

    def test_a_restart_leaves_a_running_container_its_port(self):
        self.serve({})
        self.restart_compute_service("rt-1")
        self.assertEqual(1, len(self.pluggers.asked))
        self.assertEqual([self.port], list(self.pluggers.ports))


class ContainerPinningTest(ContainerTest):
    def test_a_container_gets_the_pcpus_that_nova_claimed(self):
        server = self.serve(REALTIME)
        self.assertEqual("rt-1", self.host_of(server))
        domain = self.domain()
        self.assertEqual("2-3", domain.find("vcpu").get("cpuset"))
        usage = self._get_provider_usages(self.compute_rp_uuids["rt-1"])
        self.assertEqual(2, usage["PCPU"])

    def test_nothing_is_said_of_vcpus(self):
        self.serve({"hw:cpu_policy": "dedicated"})
        domain = self.domain()
        self.assertEqual("2-3", domain.find("vcpu").get("cpuset"))
        for name in ("vcpupin", "emulatorpin", "memnode", "cell"):
            self.assertEqual([], list(domain.iter(name)), name)
        memory = domain.find("numatune/memory")
        self.assertEqual("0", memory.get("nodeset"))

    def test_two_containers_never_share_a_pcpu(self):
        flavor = self._create_flavor(vcpu=1, extra_spec=REALTIME)
        seen = set()
        for _ in range(2):
            self._create_server(flavor_id=flavor, networks="none")
            seen.add(self.domain().find("vcpu").get("cpuset"))
        self.assertEqual({"2", "3"}, seen)
        self._create_server(
            flavor_id=flavor, networks="none", expected_state="ERROR"
        )

    def test_an_ordinary_container_is_left_as_nova_made_it(self):
        self.boot({})
        self.assertEqual("0-1", self.domain().find("vcpu").get("cpuset"))

    def test_a_container_comes_back_on_its_pcpus(self):
        server = self.serve(REALTIME)
        self._reboot_server(server, hard=True)
        self.assertEqual("2-3", self.domain().find("vcpu").get("cpuset"))


class NovaAloneTest(ContainerTest):
    """What Nova does of itself: why the driver says that it has NUMA."""

    def _without_us(self) -> Any:
        return fixtures.MonkeyPatch(
            "sriov_rt.nova.containers.has_numa_support", lambda: False
        )

    def test_a_dedicated_container_fits_nowhere(self):
        self.useFixture(self._without_us())
        self._run_periodics()
        self.boot({"hw:cpu_policy": "dedicated"}, state="ERROR")
        self.assertEqual([], self.domains)
