# SPDX-License-Identifier: Apache-2.0

"""A large cluster costs an agent no more than a small one."""

import concurrent.futures
import logging
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tests.kubernetes.base import KubernetesTestCase
from tests.periodic import periodic
from tests.testbed.kube.nodes import Nodes
from tests.testbed.waiting import wait_for

LOG = logging.getLogger(__name__)

NODES = 1000
THREADS = 4

#: How long the labels of all Nodes change, seconds, and the same before it.
CHURN_S = 15.0

#: What an agent may take more of while they do: bytes, and seconds of CPU a
#: second. It hears of none of it.
MORE_BYTES = 2 * 1024 * 1024
MORE_CPU = 0.02

#: Seconds after which the agent ends a watch, and lists its Node again.
WATCH_S = 5

CONFIGURATION = """
[DEFAULT]
host = {node}
transport_url = fake://
[agent]
root = {place}
publish_traits = false
[labels]
sources = kubernetes
store = {place}/labels.json
[kubernetes]
kubeconfig = {kubeconfig}
watch_timeout = {watch}
"""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_LISTS = re.compile(
    r'^apiserver_request_total\{[^}]*resource="nodes"[^}]*verb="LIST"[^}]*\}'
    r" ([0-9]+)",
    re.MULTILINE,
)


@periodic
class ScaleTest(KubernetesTestCase):
    def setUp(self) -> None:
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def test_label_churn_on_1000_nodes(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            names = [f"n{number}" for number in range(NODES)]
            list(pool.map(self.kube.nodes.create, names))
        agent = self._agent("n0")
        lists = [self._lists()]
        quiet = self._cost(agent, lambda: time.sleep(CHURN_S))
        lists.append(self._lists())
        changes = [0]

        def churn() -> None:
            changes[0] = self._churn(names[1:])

        busy = self._cost(agent, churn)
        LOG.info(
            "%d changes in %d s; CPU %.4f s/s before, %.4f s/s meanwhile; "
            "%d kB more",
            changes[0],
            CHURN_S,
            quiet[1],
            busy[1],
            busy[0] // 1024,
        )
        self.assertGreater(changes[0], 20 * CHURN_S)
        self.assertLess(busy[0], MORE_BYTES)
        self.assertLess(busy[1], quiet[1] + MORE_CPU)
        lists.append(self._lists())
        # One when a watch ends, and none for what others' Nodes do.
        before, meanwhile = lists[1] - lists[0], lists[2] - lists[1]
        self.assertLessEqual(meanwhile, before + 1)
        self._restart()

    def _restart(self) -> None:
        """Restart the API server: the agent goes on where it was."""
        self.kube.stop_api_server()
        began = time.monotonic()
        self.kube.start_api_server()
        self.kube.nodes.label("n0", {"x.example/after": "restart"})
        wait_for(
            "the label is known", lambda: self._knows("restart"), timeout=20
        )
        # Refused watches may make it list, once a refusal: no storm.
        ended = int((time.monotonic() - began) / WATCH_S)
        self.assertLessEqual(self._lists(), 3 + ended)

    def _agent(self, node: str) -> subprocess.Popen[bytes]:
        self.kube.agents.grant(node)
        user = self.kube.agents.with_certificate(node)
        path = self.place / "sriov-rt.conf"
        path.write_text(
            CONFIGURATION.format(
                node=node,
                place=self.place,
                kubeconfig=user.kubeconfig,
                watch=WATCH_S,
            )
        )
        log = (self.place / "log").open("wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "sriov_rt.cmd.agent",
                "--config-file",
                str(path),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.kube.nodes.label(node, {"x.example/first": "begin"})
        wait_for(
            "the first label is known",
            lambda: self._knows("begin"),
            timeout=30,
        )
        time.sleep(5.0)
        return process

    def _knows(self, value: str) -> bool:
        return f'"{value}"' in (self.place / "labels.json").read_text()

    def _cost(
        self, agent: subprocess.Popen[bytes], meanwhile: Callable[[], None]
    ) -> tuple[int, float]:
        """Return bytes more, and CPU a second, while something runs."""
        memory, cpu, began = *_used(agent.pid), time.monotonic()
        meanwhile()
        memory_now, cpu_now = _used(agent.pid)
        seconds = time.monotonic() - began
        return memory_now - memory, (cpu_now - cpu) / seconds

    def _churn(self, names: list[str]) -> int:
        deadline = time.monotonic() + CHURN_S
        nodes = self.kube.nodes

        def change(seed: int) -> int:
            return _change(nodes, names, random.Random(seed), deadline)

        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            return sum(pool.map(change, range(THREADS)))

    def _lists(self) -> int:
        """Return how often Nodes were listed since the API server started."""
        answer = self.kube.admin().call_api(
            "/metrics", "GET", _preload_content=False
        )
        found = _LISTS.findall(answer.data.decode())
        return sum(int(number) for number in found)


def _change(
    nodes: Nodes, names: list[str], chance: random.Random, deadline: float
) -> int:
    count = 0
    while time.monotonic() < deadline:
        value = str(chance.randrange(10**6))
        nodes.label(chance.choice(names), {"x.example/churn": value})
        count += 1
    return count


def _used(pid: int) -> tuple[int, float]:
    """Return a process's resident bytes and its seconds of CPU."""
    place = pathlib.Path("/proc", str(pid))
    pages = int((place / "statm").read_text().split()[1])
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    return pages * _PAGE, (int(fields[11]) + int(fields[12])) / _TICKS
