# SPDX-License-Identifier: Apache-2.0

"""What nova-compute takes to spawn a server, by Nova's driver and by ours.

python3 -m tests.testbed inside -- python3 -m tests.benchmarks bench_boot

restarts nova-compute of std-1 with the one driver and the other in turn, and
has it spawn servers with one port each. The first of a turn is not counted.
``SRIOV_RT_BOOTS`` says how many are, of each flavor, and ``SRIOV_RT_TURNS`` in
how many turns. The cloud is left as it was; rt-1 is not needed in it.
"""

import contextlib
import functools
import os
import re
import statistics
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.measure import processor_s
from tests.benchmarks.measure import row
from tests.cloud.logs import Log
from tests.testbed import joining
from tests.testbed.cloud import Cloud
from tests.testbed.devstack import nodes
from tests.testbed.process import Record
from tests.testbed.seed import ORDINARY_FLAVOR
from tests.testbed.services import STD
from tests.testbed.waiting import wait_for

TURNS = int(os.environ.get("SRIOV_RT_TURNS", "3"))
BOOTS = int(os.environ.get("SRIOV_RT_BOOTS", "4"))

#: A ratio of 1.03 at most is what nobody feels.
TARGET = 1.03

#: In nova-compute's configuration, and in its log.
DRIVERS = {
    "nova": "libvirt.LibvirtDriver",
    "ours": "sriov_rt.RealtimeLibvirtDriver",
}

#: One that any host may serve, for which ours reads the host's facts and
#: renders the guest.
LEAN = "bench.lean"
LEAN_SPECS = {"sriov_rt:guest": "lean"}

FLAVORS = {ORDINARY_FLAVOR: "an ordinary flavor", LEAN: "a lean guest"}

#: What nova-compute says after its start has gone through the servers that are
#: being built: it takes those that came before for stuck ones.
_READY = "The update_resources thread pool"

#: Until nova-compute has imported Nova on a busy machine.
START_SECONDS = 300.0

_COMPUTE = "nova-compute"

#: nova.compute.manager, _build_and_run_instance.
_SPAWNED = "Took ([0-9.]+) seconds to spawn the instance on the hypervisor"

#: Flavor and driver to the seconds of each spawn, and the CPU time meanwhile.
_Times = dict[tuple[str, str], list[tuple[float, float]]]


class _Host:
    """nova-compute of std-1, with a choice of drivers.

    :param port: the id of the port that each server gets.
    """

    def __init__(self, cloud: Cloud, port: str) -> None:
        self._cloud = cloud
        self._port = port
        self._file = cloud.place.etc / _COMPUTE / "nova.conf"
        self._log = cloud.place.log / f"{_COMPUTE}.log"
        self._ours = self._file.read_text()

    def use(self, driver: str) -> None:
        """Restart it with a driver.

        :param driver: a key of DRIVERS.
        """
        ours = driver == "ours"
        self._file.write_text(
            self._ours if ours else nodes.without_ours(self._ours)
        )
        log = Log.from_now(self._log)
        services = self._cloud.services
        services.restart(_COMPUTE)
        for said in (f"Loading compute driver '{DRIVERS[driver]}'", _READY):
            wait_for(
                f"{_COMPUTE} says: {said}",
                functools.partial(log.lines, said),
                timeout=START_SECONDS,
                interval=1,
            )
        joining.wait_compute(
            self._cloud.api, STD, lambda: services.status()[STD][_COMPUTE]
        )

    def spawn(self, flavor: str) -> tuple[float, float]:
        """Spawn a server and delete it.

        :param flavor: the name of its flavor.
        :returns: the seconds that it took, and the CPU time that nova-compute
            took until the server was ACTIVE.
        """
        log = Log.from_now(self._log)
        servers = self._cloud.servers
        compute = Record.load(self._cloud.place.run / f"{_COMPUTE}.json")
        before = processor_s(compute.identity.pid)
        server = servers.create(
            "bench",
            flavor,
            ports=[self._port],
            fields={"availability_zone": f"nova:{STD}"},
        )
        try:
            found = servers.wait(server)
            assert found.status == "ACTIVE", found.fault
            used_s = processor_s(compute.identity.pid) - before
            (line,) = log.lines(server, "seconds to spawn the instance")
        finally:
            servers.delete(server)
        took = re.search(_SPAWNED, line)
        assert took, line
        return float(took[1]), used_s


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    cloud = Cloud()
    found: _Times = {
        (flavor, driver): [] for flavor in FLAVORS for driver in DRIVERS
    }
    with _lean(cloud), _port(cloud) as port:
        host = _Host(cloud, port)
        try:
            for _ in range(TURNS):
                for driver in DRIVERS:
                    host.use(driver)
                    host.spawn(ORDINARY_FLAVOR)
                    for _ in range(BOOTS):
                        for flavor in FLAVORS:
                            found[flavor, driver].append(host.spawn(flavor))
        finally:
            host.use("ours")
    return [each for flavor in FLAVORS for each in _rows(flavor, found)]


def _rows(flavor: str, found: _Times) -> Iterator[dict[str, Any]]:
    took_s, used_s = zip(*found[flavor, "ours"], strict=True)
    peer_s, peer_used_s = zip(*found[flavor, "nova"], strict=True)
    yield row(
        f"spawn of {FLAVORS[flavor]} / Nova's own driver",
        statistics.median(took_s),
        "s",
        peer=statistics.median(peer_s),
        target=TARGET,
    )
    yield row("  the quickest", min(took_s), "s", peer=min(peer_s))
    yield row(
        "  CPU time of nova-compute meanwhile",
        statistics.median(used_s),
        "s",
        peer=statistics.median(peer_used_s),
    )


@contextlib.contextmanager
def _lean(cloud: Cloud) -> Iterator[None]:
    flavor = cloud.create_flavor(LEAN, LEAN_SPECS)
    try:
        yield
    finally:
        cloud.api.compute.delete_flavor(flavor)


@contextlib.contextmanager
def _port(cloud: Cloud) -> Iterator[str]:
    """Make a network of a project with a port, a tap; give the port's id."""
    network = cloud.api.network
    made = network.create_network(name="bench", provider_network_type="local")
    try:
        network.create_subnet(
            network_id=made.id,
            ip_version=4,
            cidr="192.0.2.0/24",
            is_dhcp_enabled=False,
        )
        port = network.create_port(network_id=made.id)
        try:
            yield str(port.id)
        finally:
            network.delete_port(port)
    finally:
        network.delete_network(made)
