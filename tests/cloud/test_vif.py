# SPDX-License-Identifier: Apache-2.0

"""A nova-compute that is killed while it plugs a port of sriov_rt."""

import json
from typing import Any

from tests.cloud.base import KERNEL
from tests.cloud.base import RT_COMPUTE_LOG
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.periodic import periodic
from tests.testbed import realtime_host
from tests.testbed.services import RT

#: Seconds in which a VF is clean after its guest has gone. The SR-IOV agent
#: polls each other second, but it and our extension each start a privileged
#: helper at the first port, half a minute each in an emulated machine.
CLEAN_SECONDS = 600.0
#: Seconds of a nova-compute that starts in the virtual machine.
START_SECONDS = 720.0

#: What a port asks for that is no VF of its own.
NORMAL = {"binding_vnic_type": "normal"}

#: How nobody has left a VF: what sriov_rt.nic.model calls the baseline.
BASELINE = {
    "mac": "00:00:00:00:00:00",
    "vlan": 0,
    "qos": 0,
    "spoofchk": True,
    "trust": False,
    "min_tx_rate": 0,
    "max_tx_rate": 0,
}

_RECORDS = f"{realtime_host.RECORDS}/records"

#: Kills a nova-compute and its privileged helper as soon as there is a port's
#: record, and prints the port. The arguments: the records' directory, and the
#: leader of nova-compute's session.
_KILL_IN_PLUG = """\
import contextlib, os, pathlib, signal, subprocess, sys
records, leader = sys.argv[1], int(sys.argv[2])
helpers = subprocess.run(
    ("pgrep", "-f", "[p]rivsep-helper.*nova.conf.*sriov_rt"),
    capture_output=True, check=True, text=True,
).stdout.split()
def ports():
    # The first plug after a boot makes the directory, and a plug has begun
    # when the first line of its file is whole.
    found = []
    for each in pathlib.Path(records).glob("[!.]*-*-*-*-*"):
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
        self.addCleanup(self.cloud.api.network.delete_port, made)
        return made


# A nova-compute starts in the emulated host, which takes minutes. tests/vm
# kills a plug at any moment; tests/functional has what Nova does then.
@periodic
class TestSubinterfaces(PortsTestCase):
    """Ports that are macvtaps over VFs of the realtime host's pool."""

    NETWORK = realtime_host.POOL_NETWORK

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
                _RECORDS,
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
        names = self.host_run("ls", _RECORDS).split()
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
        self.wait_compute(log, START_SECONDS)
