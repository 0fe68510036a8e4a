# SPDX-License-Identifier: Apache-2.0

"""Onload's preload in containers, each on a macvlan over a VF of its host.

No host here has Onload: a library that counts calls of socket() stands in
for its own, and a node of /dev/net/tun's numbers for its devices. They show
what is injected, and nothing of acceleration.
"""

import dataclasses
import json
import re
import shutil
import sys
from typing import Any
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import standin
from tests.testbed.progress import Progress
from tests.testbed.rtvm import RtVm
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network
from tests.vm import onload_container

ADDRESS, PEER = "192.0.2.1", "192.0.2.2"

#: What programs of the container are started with.
_WANTED = {
    f"{name}={text}" for name, text in onload_container.PRELOADED.items()
}

#: Seconds of one measurement.
_SECONDS = 2
_COUNT = re.compile(r"^stand-in for libonload\.so: (\d+) socket calls$", re.M)


@dataclasses.dataclass(frozen=True)
class Measured:
    """What came of iperf3 between two containers.

    :param mbits: in a second, as the receiver has them.
    :param calls: of socket(), as the stand-in counted them in the client
        and in the server; None where it said nothing.
    """

    mbits: float
    calls: tuple[int | None, int | None]


# Boots a machine of its own.
@periodic
class PreloadTest(network.WireTestCase):
    """One container on rt-1, and one on a host at the other end of the wire.

    :cvar other: that host.
    :cvar init: the number of the process that rt-1's container began with.
    """

    other: ClassVar[RtVm]
    init: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Start both, the other host while rt-1's container starts."""
        super().setUpClass()
        place = base.place().state / "onload"
        shutil.rmtree(place, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, place)
        onload_container.make(place)
        cls.other = RtVm(base.place(), base.neighbour("std-4", 4, vfs=1))
        cls.other.stop()
        cls.addClassCleanup(cls.other.stop)
        cls.other.start()
        network.remake_vfs(cls.vm)
        cls.addClassCleanup(cls._clear)
        cls.init = onload_container.start(cls.vm, place, f"{ADDRESS}/24")
        cls.other.wait_ready(Progress(sys.stderr).say)
        onload_container.start(cls.other, place, f"{PEER}/24")

    @classmethod
    def _clear(cls) -> None:
        """End rt-1's container, and wait for the hook that runs then."""
        onload_container.stop(cls.vm)
        wait_for(
            "the hook has unplugged its port",
            lambda: cls.command("vif", "show", "--json").text == "[]\n",
            timeout=base.PATIENCE,
        )
        onload_container.clear(cls.vm)

    def _status(self, name: str) -> dict[str, Any]:
        """Return what the host's command says of a program."""
        rows = self.done("onload", "status")["processes"]
        (found,) = (each for each in rows if each["name"] == name)
        return dict(found)

    def test_dynamic_program_has_the_preload_and_is_not_accelerated(
        self,
    ) -> None:
        """The library is mapped and sees its calls; there is no module."""
        said = onload_container.environment(self.vm, "dynamic")
        self.assertLessEqual(_WANTED, said)
        found = self._status("dynamic")
        self.assertEqual(found["state"], "injected")
        self.assertEqual(
            found["message"],
            "injected, not accelerated: no onload module (the library is a "
            "stand-in for Onload's)",
        )
        self.assertTrue(found["stand_in"])
        self.assertEqual(found["soname"], standin.SONAME)
        self.assertEqual(found["variables"], onload_container.PRELOADED)
        maps = self.vm.read_file(f"/proc/{found['pid']}/maps")
        self.assertIn(f" {onload_container.LIBRARY}\n", maps)
        left = onload_container.end(self.vm, "dynamic", found["pid"])
        self.assertEqual(_calls(left), 3)

    def test_node_of_a_device_can_be_opened(self) -> None:
        """The lines bring it, and have LXC allow it in its cgroup."""
        script = f"exec 3<> {onload_container.NODE}"
        self.vm.run(onload_container.shell(script), timeout=base.PATIENCE)

    def test_static_program_is_told_of_as_not_accelerated(self) -> None:
        """It was to have the preload; the host knows why it has none."""
        said = onload_container.environment(self.vm, "static")
        self.assertLessEqual(_WANTED, said)
        found = self._status("static")
        self.assertEqual(found["state"], "asked")
        self.assertEqual(
            found["message"],
            "requested, not injected: the program is linked statically",
        )
        self.assertIsNone(found["library"])
        self.assertEqual(found["variables"], onload_container.PRELOADED)
        maps = self.vm.read_file(f"/proc/{found['pid']}/maps")
        self.assertNotIn("libonload", maps)
        left = onload_container.end(self.vm, "static", found["pid"])
        self.assertEqual(left, "")

    def test_iperf3_runs_between_two_hosts_with_the_preload(self) -> None:
        """From macvlan to macvlan; the stand-in sees both ends' sockets."""
        (port,) = self.done("vif", "show")
        self.assertEqual(port["kind"], "macvlan")
        self.assertIsNotNone(port["vf"])
        self.assertTrue(network.ping(self.vm, f"pid:{self.init}", PEER))
        preloaded = self._measure()
        for calls in preloaded.calls:
            self.assertGreater(calls or 0, 0)
        plain = self._measure("unset LD_PRELOAD; ")
        self.assertEqual(plain.calls, (None, None))
        for each in (preloaded, plain):
            self.assertGreater(each.mbits, 0)
        print(
            f"iperf3 between two hosts: {preloaded.mbits:.0f} Mbit/s with "
            f"the preload, {plain.mbits:.0f} without (stand-in: says "
            "nothing of Onload's speed)",
            file=sys.stderr,
        )

    def _measure(self, before: str = "") -> Measured:
        """Send from rt-1's container to the other host's.

        :param before: what the shell does that iperf3 is started by.
        """
        server = f"{before}exec /bin/iperf3 -s -1"
        client = f"{before}exec /bin/iperf3 -c {PEER} -t {_SECONDS} -J"
        log = base.place().log / "onload-iperf3.log"
        log.unlink(missing_ok=True)
        job = self.other.spawn(onload_container.shell(server), log=log)
        onload_container.listening(self.other)
        done = self.vm.run(
            onload_container.shell(client), timeout=base.PATIENCE
        )
        wait_for(
            "iperf3's server ends",
            lambda: self.other.status(job) is not None,
            timeout=base.PATIENCE,
        )
        received = json.loads(done.text)["end"]["sum_received"]
        return Measured(
            received["bits_per_second"] / 1e6,
            (_calls(done.complaint), _calls(log.read_text())),
        )


def _calls(text: str) -> int | None:
    """Return how many calls the stand-in counted, None if it wasn't there."""
    found = _COUNT.search(text)
    return None if found is None else int(found[1])
