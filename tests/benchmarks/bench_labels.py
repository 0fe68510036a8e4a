# SPDX-License-Identifier: Apache-2.0

"""From a label's change in Kubernetes to the scheduler's facts table.

On a real API server and etcd; beside it a bare watch of the same Node, which
hears of the same changes. The message queue's own time is left out: the agent
hands its messages, JSON and all, to the scheduler's endpoint.
"""

import contextlib
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from unittest import mock

from kubernetes.client import CoreV1Api
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from sriov_rt.agent import assembly
from sriov_rt.scheduler.listener import Endpoint
from tests.benchmarks.measure import row
from tests.kubernetes.live import DEBOUNCE_S
from tests.kubernetes.live import Live
from tests.testbed.kube.cluster import Kube
from tests.testbed.paths import Paths
from tests.testbed.progress import Progress

NODE = "bench"
KEY = "feature.node.kubernetes.io/bench"
CHANGES = 100


class _Direct:
    """A message queue without one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def cast(self, method: str, **arguments: Any) -> None:
        getattr(self._endpoint, method)({}, **arguments)

    def close(self) -> None:
        pass


class _Host(Live):
    def start_agent(self) -> None:
        endpoint = Endpoint(self.worker.table, lambda _: None)
        bus = _Direct(endpoint)
        with mock.patch.object(assembly, "Bus", return_value=bus):
            super().start_agent()

    def label(self) -> str | None:
        """Return the label's value in the facts table."""
        entry = self.worker.table.entries.get(NODE)
        values = None if entry is None else entry.facts.labels.values
        found: str | None = values.get(KEY) if values else None
        return found


class _Watch:
    """A bare watch, which notes when it hears of which value."""

    def __init__(self, kube: Kube) -> None:
        self.heard: dict[str, float] = {}
        self._kube = kube
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        events = Watch(return_type="object").stream(
            CoreV1Api(self._kube.server.admin()).list_node,
            field_selector=f"metadata.name={NODE}",
            timeout_seconds=600,
        )
        # It ends with the API server.
        with contextlib.suppress(HTTPError):
            for event in events:
                value = event["object"]["metadata"]["labels"].get(KEY)
                if value is not None:
                    self.heard.setdefault(value, time.perf_counter())


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    with _running() as (kube, host):
        watch = _Watch(kube)
        _until(lambda: host.label() == _change(kube, "0"), "the first label")
        _until(lambda: "0" in watch.heard, "the first event")
        times = [_one(kube, host, watch, n) for n in range(1, CHANGES + 1)]
    ours = [each[0] * 1e3 for each in times]
    peer = [each[1] * 1e3 for each in times]
    debounce_ms = DEBOUNCE_S * 1e3
    rows = []
    for name, of in (("median", statistics.median), ("worst", max)):
        told = f"label change to facts in the table, {name}"
        rows.append(row(told, of(ours), "ms"))
        rows.append(
            row(
                "  without the debounce, beside a bare watch",
                of(ours) - debounce_ms,
                "ms",
                peer=of(peer),
            )
        )
    return rows


@contextlib.contextmanager
def _running() -> Iterator[tuple[Kube, _Host]]:
    kube = Kube(Paths.from_environment())
    kube.prepare(Progress())
    with contextlib.ExitStack() as stack:
        stack.callback(kube.stop)
        kube.start()
        kube.nodes.create(NODE)
        kube.agents.grant(NODE)
        user = kube.agents.with_certificate(NODE)
        place = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory())
        )
        host = _Host(
            NODE,
            place,
            pathlib.Path("/"),
            kubeconfig=str(user.kubeconfig),
        )
        stack.enter_context(host.running())
        yield kube, host


def _change(kube: Kube, value: str) -> str:
    kube.nodes.label(NODE, {KEY: value})
    return value


def _one(
    kube: Kube, host: _Host, watch: _Watch, number: int
) -> tuple[float, float]:
    """Change the label; return the seconds to the table and to the watch."""
    value = str(number)
    # Not in step with anything that runs at intervals.
    time.sleep(0.05 + 0.001 * (number * 37 % 100))
    began = time.perf_counter()
    _change(kube, value)
    _until(lambda: host.label() == value, value)
    ours = time.perf_counter() - began
    _until(lambda: value in watch.heard, value)
    return ours, watch.heard[value] - began


def _until(probe: Callable[[], bool], what: str) -> None:
    deadline = time.perf_counter() + 30.0
    while not probe():
        assert time.perf_counter() < deadline, f"{what} never came"
        time.sleep(0.0005)
