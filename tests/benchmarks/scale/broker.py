# SPDX-License-Identifier: Apache-2.0

"""A RabbitMQ of the simulation's own.

Debian's package, with one node, as the test cloud has it. Its port mapper
outlives it: it belongs into a PID namespace that ends with the simulation.
"""

import os
import pathlib
import subprocess

from tests.benchmarks import measure
from tests.testbed import infrastructure
from tests.testbed import network
from tests.testbed import paths
from tests.testbed.identity import family
from tests.testbed.process import Record

#: Ten thousand queues take more than the test cloud's 512 MB.
MEMORY_MB = 4096

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Broker:
    """The message broker; :data:`tests.testbed.settings.TRANSPORT_URL`.

    :param state: a directory for its data and its log.
    """

    def __init__(self, state: pathlib.Path) -> None:
        self._place = paths.Paths(cache=state / "cache", state=state)
        self._place.make()
        infrastructure.configure_rabbitmq(self._place, memory_mb=MEMORY_MB)
        environment = {
            "HOME": str(state),
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
        }
        self._service = infrastructure.rabbitmq(self._place, environment)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._service.start(self._place)
        self._service.wait(self._place)

    def stop(self) -> None:
        """End it."""
        self._service.stop(self._place)

    def usage(self) -> dict[str, float]:
        """Return its CPU time, in s, and resident memory, in MB."""
        cpu_s = memory = 0.0
        record = Record.load(self._place.run / f"{self._service.name}.json")
        for each in family(record.identity):
            try:
                cpu_s += measure.processor_s(each.pid)
                statm = pathlib.Path(f"/proc/{each.pid}/statm").read_text()
            except (FileNotFoundError, ProcessLookupError):
                # It starts programs that end soon.
                continue
            memory += int(statm.split()[1]) * _PAGE / 1e6
        return {"cpu_s": cpu_s, "memory_mb": memory}


def lay_network() -> None:
    """Give the loopback of this network namespace the broker's address."""
    address = f"{network.CONTROLLER_ADDRESS}/32"
    for command in (
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "add", address, "dev", "lo"),
    ):
        subprocess.run(command, check=True, timeout=20)
