# SPDX-License-Identifier: Apache-2.0

"""The compute hosts rt-1 and rt-2: services in virtual machines."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from tests.testbed import controller_config
from tests.testbed import errors
from tests.testbed import ini
from tests.testbed import network
from tests.testbed import nova_config
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed import settings
from tests.testbed.devstack import nodes
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Job
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import RtVm

#: The machine's isolated CPUs, and the others, as in its kernel arguments.
DEDICATED_CPUS = "2,3"
SHARED_CPUS = "0,1"
#: The PF on each physical network.
_PHYSICAL_FUNCTIONS = {"physnet1": "enp1s0", "physnet2": "enp2s0"}
#: The VFs that Nova may pass through: all but those of the pool.
_PASSED_THROUGH = {
    "physnet1": ("*:01:*.*",),
    "physnet2": ("0000:02:10.0", "0000:02:10.2"),
}
#: The 82576's VF (drivers/net/ethernet/intel/igbvf/netdev.c).
_VF_ID = {"vendor_id": "8086", "product_id": "10ca"}
#: On the machine's tmpfs, whose few GB are memory.
_STATE = pathlib.Path("/var/lib/nova")

#: Physical network of sriov_rt's ports, and the VFs that are their parents.
#: They are VFs 2 and 3 of their PF; VFs have every other function number.
POOL_NETWORK = settings.POOL_NETWORK
_POOL = {"enp2s0v2": "0000:02:10.4", "enp2s0v3": "0000:02:10.6"}
_PARENTS = (
    *(f"{POOL_NETWORK}:{name}" for name in _POOL),
    *(
        f"{settings.WIRE_NETWORK}:{name}"
        for name in _PHYSICAL_FUNCTIONS.values()
    ),
)
#: Directory of the records of ports.
RECORDS = "/run/sriov-rt/vif"
#: Directories of Nova, Neutron and our agent, which packages would make.
_DIRECTORIES = (
    f"{_STATE}/instances",
    f"{_STATE}/neutron",
    "/var/lib/sriov-rt",
)
#: Configuration file of all programs that plug ports on the machine.
_PORTS_CONFIGURATION = "/etc/sriov_rt/sriov-rt.conf"

#: A boot takes 40 s on an idle machine.
_BOOT_SECONDS = 600.0

AGENT = "sriov-rt-agent"
NEUTRON_AGENT = "sriov-rt-neutron-agent"
SRIOV_AGENT = "neutron-sriov-nic-agent"
#: Agents that only instances with ports need.
PORT_AGENTS = (NEUTRON_AGENT, SRIOV_AGENT)
COMPUTE = "nova-compute"


@dataclasses.dataclass(frozen=True)
class Node:
    """Properties of one of the machines.

    :param name: host name.
    :param number: number in its MAC addresses.
    :param address: address of its management NIC.
    :param agents: its agents of Neutron; with the SR-IOV agent it has VFs.
    :param parents: parents of sriov_rt's ports, as in "physnet2:enp1s0".
    :param outlet: tap at the other end of its PFs' wire. A host with one has
        room for one large instance, which it runs by KVM: QEMU emulates a CPU
        with SVM, so that the guest is emulated once, not twice.
    """

    name: str
    number: int
    address: str
    agents: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    outlet: str | None = None

    @property
    def services(self) -> tuple[str, ...]:
        """Its services in the order in which they start."""
        return (AGENT, *self.agents, COMPUTE)

    @property
    def direct(self) -> bool:
        """Whether instances on it can have VFs."""
        return SRIOV_AGENT in self.agents


FIRST = Node(
    network.REALTIME, 1, network.REALTIME_ADDRESS, PORT_AGENTS, _PARENTS
)
#: Target of moved instances, with no more than that needs.
SECOND = Node(network.SECOND, 2, network.SECOND_ADDRESS)
#: Host of a Kubernetes worker.
WORKERS = Node(
    network.WORKERS,
    3,
    network.WORKERS_ADDRESS,
    (NEUTRON_AGENT,),
    (f"{POOL_NETWORK}:{_PHYSICAL_FUNCTIONS['physnet1']}",),
    network.OUTLET,
)
NODES = {each.name: each for each in (FIRST, SECOND, WORKERS)}

#: Differences from rt-1 on a host with an outlet. KVM refuses a PREEMPT_RT
#: kernel on a CPU without a constant TSC, such as QEMU's.
_LARGE: Mapping[str, Any] = {
    "kernel": "amd64",
    "memory_mb": 6144,
    "hugepages": 1100,
}


@dataclasses.dataclass(frozen=True)
class RealtimeHost:
    """A virtual machine and the services in it.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack; the machine sees it.
    :param node: which one it is.
    """

    place: paths.Paths
    env: python_env.PythonEnv
    node: Node = FIRST

    @functools.cached_property
    def machine(self) -> RtVm:
        """The machine itself: commands run in it, its console."""
        node = self.node
        shape = Machine(
            name=node.name,
            number=node.number,
            tap=network.TAPS[node.name],
            address=f"{node.address}/{network.PREFIX_LENGTH}",
            hosts={network.CONTROLLER: network.CONTROLLER_ADDRESS},
        )
        if not node.direct:
            shape = dataclasses.replace(shape, vfs=0)
        if node.outlet is not None:
            shape = dataclasses.replace(shape, outlet=node.outlet, **_LARGE)
        return RtVm(self.place, shape)

    def configure(self) -> None:
        """Write the configuration of the services in it."""
        node = self.node
        etc = self._etc
        self._log.mkdir(parents=True, exist_ok=True)
        host = nova_config.Host(
            name=node.name,
            address=node.address,
            state=_STATE,
            log=self._log,
            device_specs=_device_specs() if node.direct else (),
            # QEMU's default is 1 GiB, which `locked` makes real memory.
            tb_cache_mb=96,
            virt_type="kvm" if node.outlet else "qemu",
        )
        ini.write(etc / "nova.conf", nova_config.compute(host))
        sections = controller_config.neutron(
            self.env, state=_STATE / "neutron", host=node.name
        )
        del sections["database"]
        ini.write(etc / "neutron.conf", sections)
        ini.write(etc / "sriov_agent.ini", _sriov_agent())
        nodes.configure_host(
            self.place,
            self.env,
            node.name,
            nova=etc / "nova.conf",
            own=self._own,
            services=("q-sriov-agt",) if node.direct else (),
            variables={
                "NEUTRON_CONF": etc / "neutron.conf",
                "SRIOV_AGENT_CONF": etc / "sriov_agent.ini",
                "SRIOV_RT_DEDICATED_CPUS": DEDICATED_CPUS,
                "SRIOV_RT_NOTIFICATION_DRIVER": "messagingv2",
                "SRIOV_RT_PARENTS": ",".join(node.parents) or "none",
                "SRIOV_RT_RUN_DIR": pathlib.Path(RECORDS).parent,
                "SRIOV_RT_SHARED_CPUS": SHARED_CPUS,
            },
        )

    def boot(
        self, progress: Progress, warn: Callable[[str], None] | None = None
    ) -> None:
        """Start the machine and wait until libvirtd in it answers.

        :param progress: shows progress.
        :param warn: called with a line if it has to be started again.
        :raises errors.TestbedError: when it doesn't come up.
        """
        machine = self.machine
        for name in self.node.services:
            # The record of an earlier machine.
            self._record(name).unlink(missing_ok=True)
        with progress.step(f"{self.node.name} boots"):
            machine.start()
            machine.wait_ready(progress.say, _BOOT_SECONDS, warn)
            machine.run(("mkdir", "-p", *_DIRECTORIES))
            machine.run(
                (
                    *("install", "-D", "-m", "644"),
                    str(self._own / "sriov-rt.conf"),
                    _PORTS_CONFIGURATION,
                )
            )
            if self.node.outlet is not None:
                machine.run(("modprobe", "kvm_amd"))

    def start(self, name: str, earlier: pathlib.Path | None = None) -> None:
        """Start a service, unless it runs.

        :param name: one of the node's services.
        :param earlier: directory with another sriov-rt that it runs.
        :raises errors.TestbedError: when it can't be started.
        """
        if self.running(name):
            return
        job = self.machine.spawn(
            (self.env.program(name), *self._arguments()[name]),
            log=self._log / f"{name}.out",
            environment=programs.environment(self.place, self.env, earlier),
        )
        self._record(name).write_text(json.dumps(dataclasses.asdict(job)))

    def running(self, name: str) -> bool:
        """Whether a service was started and hasn't ended.

        :param name: one of the node's services.
        """
        job = self._job(name)
        return job is not None and self.machine.status(job) is None

    def stop(self, name: str, *, grace: float = 15.0) -> None:
        """Stop a service, if it is running.

        :param name: one of the node's services.
        :param grace: seconds between SIGTERM and SIGKILL; 0 for SIGKILL
            right away.
        :raises errors.TimedOut: when it can't be stopped.
        """
        job = self._job(name)
        if job is None:
            return
        if grace == 0:
            # The session's leader has the pid of the job.
            self.machine.run(
                ("kill", "-KILL", "--", f"-{job.pid}"), check=False
            )
        self.machine.kill(job, grace)

    def pid(self, name: str) -> int:
        """Return the process of a service, which leads a session.

        :param name: one of the node's services.
        :raises errors.TestbedError: when it was never started.
        """
        job = self._job(name)
        if job is None:
            raise errors.TestbedError(f"{name} was never started")
        return job.pid

    @property
    def _etc(self) -> pathlib.Path:
        return self.place.etc / self.node.name

    @property
    def _own(self) -> pathlib.Path:
        return self._etc / "sriov_rt"

    @property
    def _log(self) -> pathlib.Path:
        return self.place.log / self.node.name

    def _record(self, name: str) -> pathlib.Path:
        return self.place.run / f"{self.node.name}.{name}.job"

    def _job(self, name: str) -> Job | None:
        record = self._record(name)
        if not record.exists():
            return None
        return Job(**json.loads(record.read_text()))

    def _arguments(self) -> dict[str, tuple[str, ...]]:
        etc = self._etc
        return {
            AGENT: (
                f"--config-file={self._own / 'sriov-rt.conf'}",
                f"--log-file={self._log / 'sriov-rt-agent.log'}",
            ),
            NEUTRON_AGENT: (
                f"--config-file={etc / 'neutron.conf'}",
                f"--config-file={self._own / 'neutron-agent.conf'}",
                f"--log-file={self._log / 'sriov-rt-neutron-agent.log'}",
            ),
            SRIOV_AGENT: (
                f"--config-file={etc / 'neutron.conf'}",
                f"--config-file={etc / 'sriov_agent.ini'}",
                f"--log-file={self._log / 'neutron-sriov-nic-agent.log'}",
            ),
            COMPUTE: (f"--config-file={etc / 'nova.conf'}",),
        }


def _device_specs() -> tuple[str, ...]:
    return tuple(
        json.dumps(
            {
                **_VF_ID,
                "address": address,
                "physical_network": physical_network,
            }
        )
        for physical_network, addresses in _PASSED_THROUGH.items()
        for address in addresses
    )


def _sriov_agent() -> dict[str, ini.Section]:
    mappings = ",".join(
        f"{physical_network}:{interface}"
        for physical_network, interface in _PHYSICAL_FUNCTIONS.items()
    )
    assert _PHYSICAL_FUNCTIONS.keys() == settings.PHYSICAL_NETWORKS.keys()
    pool = _PHYSICAL_FUNCTIONS[POOL_NETWORK]
    return {
        "sriov_nic": {
            "physical_device_mappings": mappings,
            "exclude_devices": f"{pool}:{';'.join(_POOL.values())}",
        },
        "securitygroup": {
            "enable_security_group": False,
            "firewall_driver": "noop",
        },
        "agent": {"polling_interval": 2},
    }
