# SPDX-License-Identifier: Apache-2.0

"""A realtime guest, from README.rst's flavor to the thread of its vCPU."""

import xml.etree.ElementTree as ET
from typing import ClassVar

from tests.cloud import guests
from tests.cloud import readme
from tests.cloud.base import REALTIME
from tests.cloud.base import RT_COMPUTE_LOG
from tests.cloud.base import CloudTestCase
from tests.periodic import periodic
from tests.testbed import guest_image
from tests.testbed import guest_view
from tests.testbed import realtime_host
from tests.testbed.compute_host import ComputeHost
from tests.testbed.realtime_host import DEDICATED_CPUS
from tests.testbed.realtime_host import SHARED_CPUS
from tests.testbed.servers import Server
from tests.testbed.services import RT
from tests.testbed.waiting import wait_for

#: Seconds that nova-compute in rt-1, whose CPUs are emulated, needs from its
#: start until it has taken idle CPUs offline, beside another machine.
START_SECONDS = 540.0


class TestReadmeFlavor(CloudTestCase):
    """README.rst's flavor, made as README.rst says, and one server of it."""

    flavor_name: ClassVar[str] = "readme"
    port: ClassVar[str]
    server: ClassVar[Server]
    host: ClassVar[ComputeHost]

    @classmethod
    def setUpClass(cls) -> None:
        """Make the flavor and boot the server."""
        super().setUpClass()
        compute, network = cls.cloud.api.compute, cls.cloud.api.network
        for words in readme.flavor_commands():
            # The cloud has a flavor of README.rst's name already.
            name = words.index("rt.small")
            words[name] = cls.flavor_name
            cls.cloud.run(*words)
            if "create" in words:
                flavor = compute.find_flavor(cls.flavor_name)
                cls.addClassCleanup(compute.delete_flavor, flavor)
        cls.port = cls.cloud.create_port(
            realtime_host.POOL_NETWORK, binding_vnic_type="normal"
        )
        cls.addClassCleanup(network.delete_port, cls.port)
        cls.server = cls.cloud.servers.boot(
            "readme", cls.flavor_name, ports=[cls.port]
        )
        cls.addClassCleanup(cls.cloud.servers.delete, cls.server.id)
        if cls.server.status != "ACTIVE":
            raise AssertionError(f"{cls.server.status}: {cls.server.fault}")
        cls.host = cls.cloud.host(RT)

    def test_it_runs_on_the_realtime_host(self) -> None:
        self.assertEqual(
            ("ACTIVE", RT),
            (self.server.status, self.server.host),
            self.server.fault,
        )

    def test_its_metadata_says_what_was_done(self) -> None:
        guest = self.domain().find(f"metadata/{guests.GUEST}")
        assert guest is not None
        self.assertEqual("lean", guest.get("class"))
        self.assertEqual("yes", guest.get("realtime"))
        self.assertRegex(guest.text or "", r"^strip: .*\bmemballoon\b")

    def test_each_vcpu_has_an_isolated_cpu(self) -> None:
        pins = guests.pins(self.domain())
        self.assertEqual({0, 1}, pins.keys())
        self.assertEqual(
            {frozenset({cpu}) for cpu in guest_view.cpus(DEDICATED_CPUS)},
            set(pins.values()),
        )

    def test_its_port_is_ours(self) -> None:
        port = self.cloud.api.network.get_port(self.port)
        self.assertEqual(
            ("sriov_rt", "ACTIVE", RT),
            (port.binding_vif_type, port.status, port.binding_host_id),
        )
        (interface,) = self.domain().findall("devices/interface")
        mac, target = interface.find("mac"), interface.find("target")
        assert mac is not None
        assert target is not None
        self.assertEqual(port.mac_address, mac.get("address"))
        # The parent, and whose it is.
        link = self.host.run("ip", "-d", "link", "show", target.get("dev", ""))
        self.assertRegex(link, r"@enp2s0v[23]: ")
        self.assertIn("macvtap mode bridge", link)
        self.assertIn(self.port, link)

    # The demonstration waits for the console of one, too.
    @periodic
    def test_the_guest_reaches_its_userspace(self) -> None:
        console = self.cloud.servers.wait_console(
            self.server.id, guest_image.READY
        )
        self.assertIn("with 2 CPU", console)

    def test_the_kernel_runs_its_threads_so(self) -> None:
        pins = guests.pins(self.domain())
        threads = guest_view.threads(self.host, self.server.domain)
        vcpus = {t.vcpu: t for t in threads if t.vcpu is not None}
        self.assertEqual(pins, {n: t.allowed for n, t in vcpus.items()})
        # hw:cpu_realtime_mask=^0: the first one is for the guest's system.
        self.assertEqual("OTHER", vcpus[0].policy)
        self.assertEqual(("FIFO", 1), (vcpus[1].policy, vcpus[1].priority))
        # hw:emulator_threads_policy=share: QEMU's own threads disturb none.
        others = {t.allowed for t in threads if t.vcpu is None}
        self.assertEqual({guest_view.cpus(SHARED_CPUS)}, others)

    def domain(self) -> ET.Element:
        """Return the XML of the server's domain, as libvirt has it."""
        return guests.document(self.host, self.server.domain)


#: The dedicated CPUs, as files of the kernel name them.
_ONLINE = "cat /sys/devices/system/cpu/cpu{2,3}/online"
_SET_ONLINE = (
    "for cpu in 2 3; do echo 1 > /sys/devices/system/cpu/cpu$cpu/online; done"
)


@periodic
class TestPowerManagement(CloudTestCase):
    """A realtime server on CPUs that Nova takes off and online."""

    def setUp(self) -> None:
        """Have Nova manage the power of its dedicated CPUs."""
        super().setUp()
        self.reconfigure(
            self.cloud.place.etc / RT / "nova.conf",
            lambda text: text.replace(
                "[libvirt]\n", "[libvirt]\ncpu_power_management = true\n"
            ),
            self.restart_compute,
        )

    def test_a_server_boots_while_idle_cpus_are_offline(self) -> None:
        self.wait_online("0 0")
        flavor = self.flavor(REALTIME, vcpus=1, ram=128)
        server = self.boot_on(RT, flavor)
        pins = guests.pins(guests.document(self.cloud.host(RT), server.domain))
        self.assertEqual({0}, pins.keys())
        used = "1 0" if pins[0] == {2} else "0 1"
        self.assertEqual(used, self.online())
        self.delete(server.id)
        self.wait_online("0 0")

    def restart_compute(self) -> None:
        """Start nova-compute anew, and wait until servers boot there.

        It does not start where dedicated CPUs are offline and it does not
        manage them. The agent has seen it go, and has to see it come.
        """
        log = self.log(RT_COMPUTE_LOG)
        self.cloud.services.stop(realtime_host.COMPUTE, RT)
        self.cloud.host(RT).run("sh", "-c", _SET_ONLINE)
        self.cloud.services.start(realtime_host.COMPUTE, RT)
        self.wait_compute(log, START_SECONDS)
        self.wait_realtime(START_SECONDS)

    def online(self) -> str:
        """Return what the kernel says of each dedicated CPU, 1 or 0."""
        found = self.cloud.host(RT).run("bash", "-c", _ONLINE)
        return " ".join(found.split())

    def wait_online(self, wanted: str) -> None:
        """Wait until Nova has taken CPUs off or online."""
        wait_for(
            f"dedicated CPUs of {RT} are '{wanted}'",
            lambda: self.online() == wanted,
            timeout=START_SECONDS,
        )
