# SPDX-License-Identifier: Apache-2.0

"""Tempest: its own tests, and the plugin's tests of ports of containers."""

import re
from typing import ClassVar

from tests.cloud.base import LOGS
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.periodic import periodic
from tests.testbed import container_image
from tests.testbed import realtime_host
from tests.testbed import settings
from tests.testbed import tempest_compare
from tests.testbed import tempest_config
from tests.testbed import tempest_tests
from tests.testbed.services import LXC
from tests.testbed.services import RT
from tests.vm import network as vm_network

LXC_COMPUTE_LOG = f"{LXC}/nova-compute.log"

#: Seconds in which an emulated host starts nova-compute.
COMPUTE_SECONDS = 600.0


@periodic
class TestOthers(CloudTestCase):
    """The plugin's tests are run beside these, by tempest_run."""

    def test_tempest_finds_the_same_without_sriov_rt(self) -> None:
        log = self.cloud.place.log / "test-tempest-compare.log"
        with log.open("w") as sink:
            without, ours = tempest_compare.run(self.cloud, sink=sink)
        say(f"see {log}\n{tempest_tests.table(without, ours)}")
        self.assertIn("ok", ours.tests.values())
        self.assertEqual([], tempest_tests.different(without, ours))


class ContainersTestCase(CloudTestCase):
    """Ports of containers; for virtual machines a port is a macvlan."""

    def reach(self, **networks: str) -> dict[str, str]:
        """Run the plugin's tests of ports; return what each has found.

        :param networks: the physical network of each kind of port.
        """
        name = self.upload(container_image.build, {"img_hv_type": "lxc"})
        image = self.cloud.api.image.find_image(name, ignore_missing=False).id
        found = self.tempest(
            r"\.ReachTest\.", tempest_config.containers(image, networks)
        )
        return {
            test.rpartition(".test_")[2]: result
            for test, result in found.items()
        }


@periodic
class TestContainers(ContainersTestCase):
    """On a host whose NICs are veths, and whose kernel may have no ipvlan."""

    logs: ClassVar = (*LOGS, LXC_COMPUTE_LOG)

    @classmethod
    def setUpClass(cls) -> None:
        """Let the host join."""
        super().setUpClass()
        if cls.cloud.join_containers():
            cls.addClassCleanup(cls.cloud.leave_containers)

    def test_macvlans_reach_each_other(self) -> None:
        self.assertEqual(
            {"macvlan": "ok", "ipvlan": "SKIPPED", "vf": "SKIPPED"},
            self.reach(macvlan=settings.POOL_NETWORK),
        )


@periodic
class TestContainersOfNics(ContainersTestCase):
    """On rt-1, with its NICs and its kernel, which has virtual machines."""

    def setUp(self) -> None:
        """Let it have containers, and its networks other ports."""
        super().setUp()
        # Nova mounts a container's image there.
        self.cloud.host(RT).run("modprobe", "-a", "loop", "ext4")
        machine = self.cloud.realtime.machine
        own = vm_network.OWN_MAILBOX_CPU
        self.addCleanup(vm_network.serve_mailboxes, machine, own)
        vm_network.serve_mailboxes(machine, vm_network.MAILBOX_CPU)
        etc = self.cloud.place.etc
        networks = f"{settings.POOL_NETWORK}:vf,{settings.WIRE_NETWORK}:ipvlan"
        self.reconfigure(
            etc / "neutron" / "ml2_conf.ini",
            lambda text: re.sub(
                r"(?m)^(physical_networks =).*", rf"\1 {networks}", text
            ),
            self.restart_neutron,
        )
        self.reconfigure(
            etc / RT / "nova.conf",
            lambda text: text.replace(
                "virt_type = qemu", "virt_type = lxc"
            ).replace("use_cow_images = true", "use_cow_images = false"),
            self.restart_compute,
        )

    def restart_neutron(self) -> None:
        """Start what binds ports anew."""
        for name in ("neutron", "neutron-rpc-server"):
            self.cloud.services.restart(name)

    def restart_compute(self) -> None:
        """Start rt-1's nova-compute anew, and wait until Nova knows of it."""
        self.cloud.services.restart(realtime_host.COMPUTE, RT)
        config = self.cloud.place.etc / RT / "nova.conf"
        lxc = "virt_type = lxc" in config.read_text()
        hypervisor = "LXC" if lxc else "QEMU"
        self.wait_for(
            f"{RT} is of type {hypervisor}",
            lambda: hypervisor in self.hypervisors(),
            timeout=COMPUTE_SECONDS,
        )

    def hypervisors(self) -> list[str]:
        """Return the type of rt-1's hypervisor, if it is up."""
        listed = self.cloud.api.compute.hypervisors(details=True)
        return [
            each.hypervisor_type
            for each in listed
            if (each.name, each.state) == (RT, "up")
        ]

    def test_ipvlans_and_whole_vfs_reach_each_other(self) -> None:
        self.assertEqual(
            {"macvlan": "SKIPPED", "ipvlan": "ok", "vf": "ok"},
            self.reach(ipvlan=settings.WIRE_NETWORK, vf=settings.POOL_NETWORK),
        )
