# SPDX-License-Identifier: Apache-2.0

"""The compute host lxc-1: containers, next to std-1 on the same machine.

It has its own namespaces (container_world) and exists only on request: by
`up --lxc`, or by a test.
"""

import dataclasses
import pathlib
import shutil
import signal
import sys
from collections.abc import Mapping

from tests.testbed import container_config
from tests.testbed import container_world
from tests.testbed import loops
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed.process import Record
from tests.testbed.service import Service
from tests.testbed.service import running
from tests.testbed.waiting import run

#: libvirt's driver for containers.
URI = "lxc:///system"

AGENT = "sriov-rt-agent"
NEUTRON_AGENT = "sriov-rt-neutron-agent"
COMPUTE = "nova-compute"
_LIBVIRT = "libvirtd"
_HOLDER = "host"
#: Services in the order in which they start.
SERVICES = (_HOLDER, _LIBVIRT, AGENT, NEUTRON_AGENT, COMPUTE)

_DESTROY = """\
for domain in $(virsh --connect "$1" list --name); do
    virsh --connect "$1" destroy "$domain"
done
"""


@dataclasses.dataclass(frozen=True)
class ContainerHost:
    """The namespaces of lxc-1, and the services in them.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack.
    """

    place: paths.Paths
    env: python_env.PythonEnv

    @property
    def is_up(self) -> bool:
        """Whether its namespaces exist."""
        return self.running(_HOLDER)

    @property
    def root(self) -> pathlib.Path:
        """Its root directory as seen from outside, while it is up."""
        return pathlib.Path(f"/proc/{self._pid}/root")

    @property
    def places(self) -> container_config.Places:
        """Its directories, as the cloud sees them."""
        return container_config.Places(self.place)

    def start(self, name: str | None = None) -> None:
        """Start a service, or all, and wait until they are ready.

        :param name: one of SERVICES; all, and the host itself, if None.
        :raises errors.TestbedError: when one doesn't come up.
        """
        if name is not None:
            self._start(name)
            return
        if not self.is_up:
            self._ready.parent.mkdir(parents=True, exist_ok=True)
            self._ready.unlink(missing_ok=True)
            container_config.write(self.places, self.env)
            self._start(_HOLDER)
            self._connect()
        for each in SERVICES[1:]:
            self._start(each)

    def stop(
        self, name: str | None = None, how: signal.Signals = signal.SIGTERM
    ) -> None:
        """Stop a service, or all of the host, if it is running.

        :param name: one of SERVICES; all, with their data, if None.
        :param how: SIGKILL to give it no chance to clean up.
        :raises errors.TestbedError: when something can't be stopped.
        """
        if name is not None:
            _stop(name, self.place, how)
            return
        if self.running(_LIBVIRT):
            # Containers are not children of any of our processes.
            self.run("sh", "-c", _DESTROY, "sh", URI)
        for each in reversed(SERVICES):
            _stop(each, self.place, how)
        loops.detach(self.places.state)
        # When it is started again it is a new host: Nova's record is gone.
        shutil.rmtree(self.places.state, ignore_errors=True)

    def running(self, name: str) -> bool:
        """Whether a service was started and hasn't ended.

        :param name: one of SERVICES.
        """
        return running(_full(name), self.place)

    def run(
        self,
        *command: str,
        timeout: float = 120.0,
        stdin: bytes | None = None,
    ) -> str:
        """Run a program on it, as root, with OpenStack's environment.

        :param command: program and arguments.
        :param timeout: seconds it may take.
        :param stdin: what it reads; nothing when None.
        :returns: what it printed.
        :raises errors.TestbedError: when it fails or takes too long.
        """
        return run(
            (*self._enter(), *command),
            timeout=timeout,
            environment=programs.environment(self.place, self.env),
            stdin=stdin,
        )

    def _start(self, name: str) -> None:
        service = self._service(name)
        service.start(self.place)
        service.wait(self.place)

    def _connect(self) -> None:
        """Lay the cable between it and the controller."""
        network.lay_cable(self._pid, "eth0")
        address = f"{network.CONTAINERS_ADDRESS}/{network.PREFIX_LENGTH}"
        self.run("ip", "address", "add", address, "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    @property
    def _pid(self) -> int:
        record = Record.load(self.place.run / f"{_full(_HOLDER)}.json")
        return record.identity.pid

    @property
    def _ready(self) -> pathlib.Path:
        return self.place.run / container_world.READY

    def _enter(self) -> tuple[str, ...]:
        # nsenter becomes the program, so signals to it reach the program.
        flags = ("--net", "--mount", "--uts", "--wd=/")
        return ("nsenter", f"--target={self._pid}", *flags, "--")

    def _service(self, name: str) -> Service:
        environment = programs.environment(self.place, self.env)
        if name == _HOLDER:
            return Service(
                _full(name),
                (
                    *("unshare", "--net", "--mount", "--uts"),
                    *("--propagation", "private", sys.executable),
                    *("-m", "tests.testbed.container_world"),
                ),
                {**environment, **self._harness()},
                ready=self._ready.exists,
            )
        etc, log = self.places.etc, self.places.log
        own = self.places.own
        arguments = {
            _LIBVIRT: (),
            AGENT: (
                f"--config-file={own / 'sriov-rt.conf'}",
                f"--log-file={log / 'sriov-rt-agent.log'}",
            ),
            NEUTRON_AGENT: (
                f"--config-file={etc / 'neutron.conf'}",
                f"--config-file={own / 'neutron-agent.conf'}",
                f"--log-file={log / 'sriov-rt-neutron-agent.log'}",
            ),
            COMPUTE: (f"--config-file={etc / 'nova.conf'}",),
        }[name]
        command = (*self._enter(), name, *arguments)
        if name != _LIBVIRT:
            return Service(_full(name), command, environment)
        socket = self.root / "run" / "libvirt" / "libvirt-sock"
        return Service(
            _full(name), command, environment, ready=socket.is_socket
        )

    def _harness(self) -> Mapping[str, str]:
        """Return the variables that parts of the test bed need."""
        return {
            "PYTHONPATH": str(paths.CHECKOUT),
            "SRIOV_RT_STATE": str(self.place.state),
            "SRIOV_RT_CACHE": str(self.place.cache),
        }


def _stop(name: str, place: paths.Paths, how: signal.Signals) -> None:
    Service(_full(name), (), {}).stop(place, how)


def _full(name: str) -> str:
    # Records and output are in directories of the host's own.
    return f"{network.CONTAINERS}/{name}"
