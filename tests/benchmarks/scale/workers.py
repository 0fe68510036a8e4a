# SPDX-License-Identifier: Apache-2.0

"""A worker of nova-scheduler: its facts table, its listener and requests."""

import logging
import statistics
import threading
import time
import typing
from typing import Any
from unittest import mock

import nova.conf
from nova import objects

from sriov_rt import facts
from sriov_rt.scheduler import listener
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from sriov_rt.scheduler.facts_table import FactsTable
from tests.benchmarks import nova_scheduler
from tests.benchmarks.scale import child
from tests.benchmarks.scale import fleet

#: Hosts that Placement has for a request, and seconds between two requests.
CANDIDATES = 20
PAUSE_S = 0.2


class Counted:
    """A facts table that counts what reaches it.

    :param table: the one of the worker.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self.rivals = table.rivals
        self.messages = 0
        self.decoded = 0

    def put(self, host: str, digest: str, found: facts.HostFacts) -> bool:
        """Take in a host's facts."""
        self.decoded += 1
        return bool(self._table.put(host, digest, found))

    def confirm(self, host: str, digest: str) -> bool:
        """Note that facts hold; each message's digest is compared first."""
        self.messages += 1
        return bool(self._table.confirm(host, digest))

    def forget(self, host: str) -> None:
        """Drop a host."""
        self._table.forget(host)

    def refuse(self, host: str, problem: str) -> None:
        """Fail: the simulation sends no such facts."""
        raise AssertionError(f"{host}: {problem}")


class SchedulerWorker:
    """A worker that places instances of an ordinary flavor, once started.

    :param url: of the message queue.
    :param with_us: False for Nova alone, which listens to no agent.
    """

    def __init__(self, url: str, with_us: bool) -> None:
        logging.basicConfig(level=logging.CRITICAL)
        conf = nova.conf.CONF
        conf([], project="nova", default_config_files=[])
        objects.register_all()
        options.register(conf)
        conf.set_override("transport_url", url, group=options.GROUP)
        self.worker = worker.Worker(conf, listen=self._listen)
        self._counted = Counted(self.worker.table)
        self._requests: list[float] = []
        self._requests_cpu_s = 0.0
        names = [fleet.name(number) for number in range(CANDIDATES)]
        self._scheduler = nova_scheduler.Scheduler(names, with_us=with_us)

    def _listen(self, conf: Any, server: str, table: Any) -> Any:
        counted = typing.cast(FactsTable, self._counted)
        return listener.Listener(conf, server, counted)

    def _place(self) -> None:
        spec = nova_scheduler.request({})
        with (
            nova_scheduler.alone(self._scheduler),
            mock.patch.object(worker, "of_this_process", lambda: self.worker),
        ):
            while True:
                began = time.monotonic()
                self._scheduler.select(spec)
                self._requests.append(time.monotonic() - began)
                self._requests_cpu_s = time.thread_time()
                time.sleep(PAUSE_S)

    def start(self) -> None:
        """Place instances: a worker listens from its first request on."""
        threading.Thread(target=self._place, daemon=True).start()

    def known(self, since: float) -> dict[str, int]:
        """Return how many hosts are known.

        :param since: monotonic time in s.
        :returns: hosts that were heard of since then, and those of them that
            report the change.
        """
        heard = changed = 0
        for entry in tuple(self.worker.table.entries.values()):
            if entry.confirmed >= since:
                heard += 1
                changed += entry.facts.memory.ksm_run == 1
        return {"heard": heard, "changed": changed}

    def usage(self) -> dict[str, float]:
        """Return what the worker has taken, without its requests.

        :returns: CPU time in s, memory in MB and messages, all so far; the
            median and the longest time of requests, in ms, since the last
            call.
        """
        found = child.usage()
        requests, self._requests = self._requests, []
        milliseconds = [each * 1e3 for each in requests] or [0.0]
        return {
            **found,
            "cpu_s": found["cpu_s"] - self._requests_cpu_s,
            "messages": float(self._counted.messages),
            "decoded": float(self._counted.decoded),
            "request_ms": statistics.median(milliseconds),
            "longest_ms": max(milliseconds),
        }
