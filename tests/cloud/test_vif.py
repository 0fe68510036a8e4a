# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Ports of sriov_rt on the test cloud: plugged, in use, and clean after."""

import json
import uuid
from typing import Any

from tests.cloud.base import KERNEL
from tests.cloud.base import REALTIME
from tests.cloud.base import RT_COMPUTE_LOG
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.testbed import guest_image
from tests.testbed import joining
from tests.testbed import prepare
from tests.testbed import realtime_host
from tests.testbed import seed
from tests.testbed.services import RT

#: Seconds in which a VF is clean after its guest has gone. The SR-IOV agent
#: polls each other second, but it and our extension each start a privileged
#: helper at the first port, half a minute each in an emulated machine.
CLEAN_SECONDS = 600.0
#: Seconds of a nova-compute that starts in the virtual machine.
START_SECONDS = 720.0

#: What a port asks for that is no VF of its own.
NORMAL = {"binding:vnic_type": "normal"}

#: A MAC that no port has.
DIRTY_MAC = "02:00:5e:66:66:66"

#: How nobody has left a VF: what sriov_rt.nic.settings calls the baseline.
BASELINE = {
    "mac": "00:00:00:00:00:00",
    "vlan": 0,
    "qos": 0,
    "spoofchk": True,
    "trust": False,
    "min_tx_rate": 0,
    "max_tx_rate": 0,
}

#: Kills a nova-compute and its privileged helper as soon as the journal has
#: the entry of a port, and prints the port. The arguments: the journal's
#: directory, and the leader of nova-compute's session.
_KILL_IN_PLUG = """\
import contextlib, os, pathlib, signal, subprocess, sys
journal, leader = sys.argv[1], int(sys.argv[2])
helpers = subprocess.run(
    ("pgrep", "-f", "[p]rivsep-helper.*nova.conf.*sriov_rt"),
    capture_output=True, check=True, text=True,
).stdout.split()
def ports():
    # The first plug after a boot makes the journal's directory, and a plug
    # has begun when the first line of its file is whole.
    found = []
    for each in pathlib.Path(journal).glob("*-*-*-*-*"):
        with contextlib.suppress(FileNotFoundError):
            if b"\\n" in each.read_bytes():
                found.append(each.name)
    return found
print("watching", *helpers, flush=True)
while not ports():
    pass
os.killpg(leader, signal.SIGKILL)
for helper in helpers:
    os.kill(int(helper), signal.SIGKILL)
print("killed in", *ports())
"""


class PortsTestCase(CloudTestCase):
    """A test that leaves every VF of the realtime host clean."""

    def setUp(self) -> None:
        """See that nobody else has left anything."""
        super().setUp()
        self.assert_nothing_left()
        self.wait_clean()

    def sriov_rt(self, *arguments: str) -> Any:
        """Return the JSON that our command prints on the realtime host.

        :param arguments: as in ("vif", "show").
        """
        program = str(self.cloud.env.program("sriov-rt"))
        return json.loads(
            self.cloud.host(RT).run(program, *arguments, "--json")
        )

    def host_run(self, *command: str) -> str:
        """Return what a program prints on the realtime host."""
        return self.cloud.host(RT).run(*command)

    def dirty(self) -> dict[str, dict[str, Any]]:
        """Return the VFs that are not at the baseline, and how they are."""
        found = {}
        for vf in self.sriov_rt("vf", "list"):
            settings = {name: vf["settings"][name] for name in BASELINE}
            if settings != BASELINE or vf["alias"]:
                found[vf["vf"]["address"]] = vf
        return found

    def wait_clean(self) -> None:
        """Wait until all VFs of the realtime host are at the baseline."""
        self.wait_for(
            "all VFs are at the baseline",
            lambda: not self.dirty(),
            timeout=CLEAN_SECONDS,
        )

    def port(self, network: str, **fields: object) -> str:
        """Make a port that is deleted after the test.

        :param network: a physical network's name.
        :param fields: of the port.
        """
        made = self.cloud.create_port(network, **fields)
        self.addCleanup(self.cloud.api.delete, "neutron", f"/ports/{made}")
        return made

    def neutron(self, port: str) -> dict[str, Any]:
        """Return what Neutron says of a port.

        :param port: its id.
        """
        found: dict[str, Any] = self.cloud.api.get(
            "neutron", f"/ports/{port}"
        )["port"]
        return found


class TestSubinterfaces(PortsTestCase):
    """Ports that are macvtaps over VFs of the realtime host's pool."""

    NETWORK = realtime_host.POOL_NETWORK

    def test_instances_reach_each_other_and_leave_clean_vfs(self) -> None:
        # On isolated CPUs: two guests that are emulated twice over would
        # keep the host's own busy for minutes.
        flavor = self.flavor(REALTIME)
        peers = (
            seed.address(self.NETWORK, 10),
            seed.address(self.NETWORK, 11),
        )
        ports = {}
        for own, peer in (peers, peers[::-1]):
            port = self.port(
                self.NETWORK,
                **NORMAL,
                fixed_ips=[{"ip_address": own}],
            )
            image = self.image(own, peer)
            # One after the other: Nova's probe for direct I/O fails if two
            # builds make it at once.
            server = self.boot_on(RT, flavor, image=image, ports=[port]).id
            self.assertEqual(
                ("ACTIVE", "sriov_rt"),
                (self.neutron(port)["status"], self.vif_type(port)),
            )
            ports[port] = server, peer
        shown = {each["port"]: each for each in self.sriov_rt("vif", "show")}
        self.assertEqual(ports.keys(), shown.keys())
        for port, (server, peer) in ports.items():
            self.assertEqual(
                (server, "macvtap"),
                (shown[port]["owner"], shown[port]["kind"]),
            )
            self.assert_in_domain(server, shown[port])
            self.cloud.servers.wait_console(
                server, f"{guest_image.REACHED} {peer}"
            )
        say(f"each of two instances reached the other: {json.dumps(shown)}")
        for server, _ in ports.values():
            self.delete(server)
        self.assertEqual([], self.sriov_rt("vif", "show"))
        self.assert_nothing_left()
        self.wait_clean()

    def test_compute_killed_in_a_plug_leaves_nothing(self) -> None:
        flavor = self.flavor(KERNEL)
        port = self.port(self.NETWORK, **NORMAL)
        machine = self.cloud.realtime.machine
        log = self.cloud.place.log / RT / "kill.log"
        log.unlink(missing_ok=True)
        killer = machine.spawn(
            (
                str(self.cloud.env.program("python")),
                "-c",
                _KILL_IN_PLUG,
                realtime_host.JOURNAL,
                str(self.cloud.realtime.pid(realtime_host.COMPUTE)),
            ),
            log=log,
        )
        self.addCleanup(machine.kill, killer)
        self.wait_for(
            "the journal is watched",
            lambda: "watching" in log.read_text(),
            timeout=START_SECONDS,
        )
        server = self.cloud.servers.create(self.name, flavor, ports=[port])
        self.addCleanup(self.delete, server)
        self.addCleanup(self.start_compute)
        self.wait_for(
            "nova-compute is killed in the plug",
            lambda: machine.status(killer) is not None,
            timeout=START_SECONDS,
        )
        self.assertIn(f"killed in {port}", log.read_text())
        say(f"killed in its plug: {self.host_run('ip', '-br', 'link')}")
        compute = self.log(RT_COMPUTE_LOG)
        self.start_compute()
        self.assertTrue(
            compute.lines(f"port={port}", "half plugged"), compute.end(200)
        )
        self.assertEqual([], self.sriov_rt("vif", "show"))
        names = self.host_run("ls", realtime_host.JOURNAL).split()
        self.assertNotIn(port, names)
        self.delete(server)
        self.assert_nothing_left()
        self.wait_clean()

    def start_compute(self) -> None:
        """Start the realtime host's nova-compute if it doesn't run."""
        if f"{realtime_host.COMPUTE} on {RT}" not in self.ended():
            return
        log = self.log(RT_COMPUTE_LOG)
        self.cloud.services.start(realtime_host.COMPUTE, RT)
        # What is deleted on a host that is not seen up has to wait for Nova
        # to look for what is left of it.
        self.wait_for(
            "nova-compute is up, and seen so",
            lambda: (
                log.lines("Looking for unclaimed instances")
                and RT in joining.hypervisors(self.cloud.api)
            ),
            timeout=START_SECONDS,
        )

    def image(self, address: str, peer: str) -> str:
        """Make an image of a guest that reaches for another; its name.

        :param address: the guest's.
        :param peer: the other guest's.
        """
        name = f"guest-{uuid.uuid4().hex[:8]}"
        made = seed.variant(
            self.cloud.api,
            name,
            f"{guest_image.ADDRESS}={address}/24 {guest_image.PEER}={peer}",
            prepare.guest(self.cloud.place),
        )
        self.addCleanup(self.cloud.api.delete, "glance", f"/images/{made}")
        return name

    def vif_type(self, port: str) -> str:
        """Return how a port is bound.

        :param port: its id.
        """
        return str(self.neutron(port)["binding:vif_type"])

    def assert_in_domain(self, server: str, shown: dict[str, Any]) -> None:
        """Check that a guest has a port's macvtap as its interface.

        :param server: its id.
        :param shown: the port, as ``sriov-rt vif show`` has it.
        """
        name = self.cloud.servers.get(server).domain
        domain = self.cloud.host(RT).domain_xml(name)
        self.assertRegex(
            domain, rf"<target dev='{shown['interface']}' managed='no'/>"
        )
        self.assertIn(shown["mac"], domain)


class TestPassThrough(PortsTestCase):
    """VFs that Nova itself hands to guests, and our extension cleans."""

    def test_a_dirty_vf_is_clean_at_its_next_owners(self) -> None:
        flavor = self.flavor(KERNEL)
        port = self.port("physnet1")
        server = self.boot_on(RT, flavor, ports=[port])
        slot = self.slot(port)
        self.assertEqual([slot], list(self.dirty()), "its VLAN is set")
        pf, index = self.pf_and_index(slot)
        # The agent itself turns spoofchk off, for the port's network has no
        # port security. What only a guest with a driver can do to a VF,
        # tests/vm has.
        for words in (
            ("trust", "on"),
            ("mac", DIRTY_MAC),
            ("vlan", "299", "qos", "3"),
        ):
            self.host_run("ip", "link", "set", pf, "vf", index, *words)
        self.delete(server.id)
        self.wait_clean()
        again = self.port("physnet1")
        self.boot_on(RT, flavor, ports=[again])
        vf = self.dirty()[self.slot(again)]["settings"]
        found = self.neutron(again)
        vlan = found["binding:profile"].get("vlan", vf["vlan"])
        self.assertEqual(
            (False, 0, found["mac_address"], vlan),
            (vf["trust"], vf["qos"], vf["mac"], vf["vlan"]),
        )
        self.assertNotEqual(299, vf["vlan"])

    def slot(self, port: str) -> str:
        """Return the PCI address of a port's VF.

        :param port: its id.
        """
        return str(self.neutron(port)["binding:profile"]["pci_slot"])

    def pf_and_index(self, slot: str) -> tuple[str, str]:
        """Return a VF's PF and its number, as ``ip link`` takes them.

        :param slot: its PCI address.
        """
        for vf in self.sriov_rt("vf", "list"):
            if vf["vf"]["address"] == slot:
                return vf["vf"]["pf"], str(vf["vf"]["index"])
        raise AssertionError(f"no VF {slot}")
