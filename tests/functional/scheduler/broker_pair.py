# SPDX-License-Identifier: Apache-2.0

"""Two nodes of RabbitMQ between an agent and a scheduler's worker.

Run as root: ``python -m tests.functional.scheduler.broker_pair FILE`` kills
each node, silences one, and cuts them off from each other; FILE gets the
seconds that each took, as JSON. It has network, mount and PID namespaces of
its own. Each node has a network namespace: one cable joins the two, another
leads each to its clients.
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from unittest import mock

from oslo_config import cfg
from oslo_messaging import conffixture

from sriov_rt import request
from sriov_rt.agent import assembly
from sriov_rt.agent import options
from sriov_rt.facts import HostFacts
from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.scheduler import options as scheduler_options
from sriov_rt.scheduler.worker import Worker
from sriov_rt.service import uevents
from tests.testbed import paths
from tests.testbed.service import Service
from tests.testbed.waiting import wait_for
from tests.unit import builders
from tests.unit.agent import fakes

#: Set where the namespaces are ours.
_INSIDE = "SRIOV_RT_BROKER_PAIR_INSIDE"

NODES = ("a", "b")
#: Addresses for clients, and for the other node.
_CLIENTS = {"a": "10.98.0.1", "b": "10.98.0.2"}
_PEERS = {"a": "10.97.0.1", "b": "10.97.0.2"}

REALTIME = request.parse(
    {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
)

#: Seconds: the agent's interval, and what facts may be old. A tenth of the
#: defaults, and a sixth.
HEARTBEAT_S = 1.0
MAX_AGE_S = 10.0
#: Seconds without an answer after which a node takes the other one for down;
#: 60 by default.
TICK_S = 8
#: Seconds that anything may take.
PATIENCE_S = 300.0

_CONFIGURATION = """\
listeners.tcp.1 = 0.0.0.0:5672
loopback_users = none
vm_memory_high_watermark.absolute = 256MB
cluster_formation.peer_discovery_backend = rabbit_peer_discovery_classic_config
cluster_formation.classic_config.nodes.1 = rabbit@a
cluster_formation.classic_config.nodes.2 = rabbit@b
cluster_partition_handling = autoheal
"""


def _run(*command: str) -> str:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def lay_network(state: pathlib.Path) -> None:
    """Make the namespaces of the nodes, and the cables.

    :param state: a directory for the names of the nodes.
    """
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "clients", "type", "bridge")
    _run("ip", "address", "add", "10.98.0.254/24", "dev", "clients")
    _run("ip", "link", "set", "clients", "up")
    for node in NODES:
        inside = ("ip", "-n", node)
        _run("ip", "netns", "add", node)
        _run(*inside, "link", "set", "lo", "up")
        peer = ("peer", "name", "eth0", "netns", node)
        _run("ip", "link", "add", f"to-{node}", "type", "veth", *peer)
        _run("ip", "link", "set", f"to-{node}", "master", "clients", "up")
        address = f"{_CLIENTS[node]}/24"
        _run(*inside, "address", "add", address, "dev", "eth0")
        _run(*inside, "link", "set", "eth0", "up")
    ends = ("name", "cluster", "netns", "a", "type", "veth")
    peer = ("peer", "name", "cluster", "netns", "b")
    _run("ip", "link", "add", *ends, *peer)
    for node in NODES:
        address = f"{_PEERS[node]}/30"
        inside = ("ip", "-n", node)
        _run(*inside, "address", "add", address, "dev", "cluster")
        _run(*inside, "link", "set", "cluster", "up")
    hosts = state / "hosts"
    names = "".join(f"{_PEERS[node]} {node}\n" for node in NODES)
    hosts.write_text(f"127.0.0.1 localhost {os.uname().nodename}\n{names}")
    _run("mount", "--bind", str(hosts), "/etc/hosts")


def plug_cable(*, plugged: bool) -> None:
    """Join the two nodes, or cut them off from each other."""
    state = "up" if plugged else "down"
    _run("ip", "-n", "a", "link", "set", "cluster", state)


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of RabbitMQ.

    :param name: of NODES.
    :param place: the directories of all nodes.
    """

    name: str
    place: paths.Paths

    @property
    def service(self) -> Service:
        """How it is started and ended."""
        own = self.place.data / self.name
        return Service(
            name=f"rabbitmq-{self.name}",
            command=(
                *("ip", "netns", "exec", self.name),
                "/usr/lib/rabbitmq/bin/rabbitmq-server",
            ),
            environment=self._environment(own),
            ready=self.joined,
            ready_seconds=PATIENCE_S,
        )

    def configure(self) -> None:
        """Write its files, and the word by which nodes know each other."""
        own = self.place.data / self.name
        own.mkdir()
        cookie = own / ".erlang.cookie"
        cookie.write_text("SRIOVRTPAIR")
        cookie.chmod(0o400)
        (own / "rabbitmq.conf").write_text(_CONFIGURATION)
        (own / "enabled_plugins").write_text("[].\n")

    def start(self) -> None:
        """Start it, and wait until it serves clients with the other one."""
        self.service.start(self.place)
        self.service.wait(self.place)

    def kill(self) -> None:
        """End it without a word."""
        self.service.stop(self.place, signal.SIGKILL)

    def joined(self) -> bool:
        """Whether it runs, and sees each node that runs."""
        command = "rabbit:is_running(), rabbit_nodes:all_running()."
        done = subprocess.run(
            (
                *("ip", "netns", "exec", self.name),
                "/usr/lib/rabbitmq/bin/rabbitmqctl",
                *("--node", f"rabbit@{self.name}", "eval", command),
            ),
            env=self._environment(self.place.data / self.name),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return f"rabbit@{self.name}" in done.stdout

    def _environment(self, own: pathlib.Path) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(own),
            "RABBITMQ_NODENAME": f"rabbit@{self.name}",
            "RABBITMQ_MNESIA_BASE": str(own / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.place.log),
            "RABBITMQ_CONFIG_FILE": str(own / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(own / "enabled_plugins"),
            "RABBITMQ_SCHEDULER_BIND_TYPE": "u",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"+S 1:1 +sbwt none -kernel net_ticktime {TICK_S}"
            ),
        }


class Cloud:
    """An agent of rt-1 and a worker, with a message queue in between.

    :param agent: the nodes that the agent may use.
    :param worker: those that the worker may use.
    """

    def __init__(self, agent: str, worker: str) -> None:
        self.facts = builders.realtime_host()
        conf = _configuration(agent)
        options.register(conf)
        for name, value in {
            "observe_interval": HEARTBEAT_S,
            "heartbeat_interval": HEARTBEAT_S,
            "report_spread": 0.1,
            "publish_traits": False,
        }.items():
            conf.set_override(name, value, group="agent")
        conf.set_override("host", "rt-1")
        conf.set_override("store", "", group="labels")
        self._agent = assembly.assemble(conf, fakes.Crash())
        self._agent.parts = dataclasses.replace(
            self._agent.parts, observe=self._observe
        )
        conf = _configuration(worker)
        scheduler_options.register(conf)
        conf.set_override("facts_max_age", MAX_AGE_S, group="sriov_rt")
        self._worker = Worker(conf)
        self._worker.start()
        self._agent.start()

    def stop(self) -> None:
        """End both."""
        self._agent.stop()
        self._worker.stop()

    def codes(self) -> set[str]:
        """Return why the worker refuses a realtime request; empty if not."""
        host = mock.Mock(host="rt-1")
        return {
            each.code for each in self._worker.verdicts.why_not(REALTIME, host)
        }

    def wait_codes(self, *wanted: str) -> float:
        """Wait until the worker refuses so; return the seconds."""
        return wait(
            f"the worker says {wanted or 'yes'}",
            lambda: self.codes() == set(wanted),
        )

    def change(self, *, fit: bool) -> None:
        """Let the host degrade, or heal it."""
        cpus = {} if fit else {"isolated": parse_cpu_list("2")}
        self.facts = builders.realtime_host(cpus=cpus)

    def _observe(self) -> HostFacts:
        return dataclasses.replace(self.facts, observed_at=time.time())


def _configuration(nodes: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    hosts = ",".join(f"guest:guest@{_CLIENTS[node]}:5672" for node in nodes)
    conffixture.ConfFixture(conf, f"rabbit://{hosts}/").setUp()
    return conf


def wait(what: str, probe: Callable[[], object]) -> float:
    """Wait until a function returns something true; return the seconds."""
    began = time.monotonic()
    wait_for(what, probe, timeout=PATIENCE_S, interval=0.1)
    seconds = time.monotonic() - began
    print(f"{what}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return round(seconds, 1)


def in_use() -> str:
    """Return the node to which most connections are open."""
    opened = pathlib.Path("/proc/net/tcp").read_text()

    def connections(node: str) -> int:
        octets = bytes(map(int, _CLIENTS[node].split(".")))
        return opened.count(f" {octets[::-1].hex().upper()}:{5672:04X} 01 ")

    return max(NODES, key=connections)


def fail_over(nodes: dict[str, Node]) -> dict[str, float]:
    """Take the node away that is in use, in two ways.

    The host changes then, and the worker has to hear of it. Each connection
    of oslo.messaging begins with any of the nodes: each node is killed once.
    """
    cloud = Cloud("ab", "ab")
    seconds = {}
    try:
        cloud.wait_codes()
        for name, node in nodes.items():
            node.kill()
            cloud.change(fit=False)
            heard = cloud.wait_codes("cpus_not_isolated")
            seconds[f"{name} killed"] = heard
            node.start()
            cloud.change(fit=True)
            cloud.wait_codes()
        # As when its power fails: nobody says so.
        silent = in_use()
        _run("ip", "link", "set", f"to-{silent}", "down")
        cloud.change(fit=False)
        seconds["silent"] = cloud.wait_codes("cpus_not_isolated")
        _run("ip", "link", "set", f"to-{silent}", "up")
    finally:
        cloud.stop()
    return seconds


def partition() -> dict[str, float]:
    """Cut the nodes off from each other, between agent and worker."""
    cloud = Cloud("a", "b")
    seconds = {}
    try:
        cloud.wait_codes()
        plug_cable(plugged=False)
        # What nobody can hear of.
        cloud.change(fit=False)
        seconds["cut: refused"] = cloud.wait_codes("facts_stale")
        plug_cable(plugged=True)
        seconds["repaired: heard"] = cloud.wait_codes("cpus_not_isolated")
        cloud.change(fit=True)
        seconds["repaired: placed"] = cloud.wait_codes()
    finally:
        cloud.stop()
    return seconds


def main() -> int:
    """Run both; the exit code is returned."""
    (output,) = sys.argv[1:]
    if _INSIDE not in os.environ:
        os.execvpe(
            "unshare",
            (
                *("unshare", "--net", "--mount", "--pid", "--fork"),
                *("--kill-child", "--mount-proc"),
                *(sys.executable, "-m", __spec__.name, output),
            ),
            {**os.environ, _INSIDE: "1"},
        )
    with (
        tempfile.TemporaryDirectory() as directory,
        mock.patch.object(uevents, "open_socket", side_effect=PermissionError),
    ):
        state = pathlib.Path(directory)
        place = paths.Paths(cache=state / "cache", state=state)
        place.make()
        lay_network(state)
        nodes = {name: Node(name, place) for name in NODES}
        for node in nodes.values():
            node.configure()
            node.start()
        found = {**partition(), **fail_over(nodes)}
        pathlib.Path(output).write_text(json.dumps(found))
        for node in nodes.values():
            node.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
