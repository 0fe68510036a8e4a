# SPDX-License-Identifier: Apache-2.0

"""Judging a nodegroup's servers by the facts of hosts."""

import functools
import os
import socket
import threading
import time
from collections.abc import Iterable

from oslo_config import cfg

from sriov_rt import decide
from sriov_rt.reason import Reason
from sriov_rt.reason import first_of
from sriov_rt.request import Request
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker

#: The most hosts that a sentence names.
MAX_HOSTS = 3

_ONE_AT_A_TIME = threading.Lock()


@functools.lru_cache(maxsize=1)
def _of_process(pid: int) -> worker.Worker:
    server = f"magnum-conductor.{socket.gethostname()}"
    return worker.Worker(cfg.CONF, server=server)


def of_this_process() -> worker.Worker:
    """Return this process's listener to the agents."""
    with _ONE_AT_A_TIME:
        return _of_process(os.getpid())


class Hosts:
    """The hosts of a cloud, as their agents report them.

    :param heard: facts table and listener.
    """

    def __init__(self, heard: worker.Worker) -> None:
        self._heard = heard

    def why_none(
        self, request: Request, vcpus: int, memory_mib: int, max_age_s: float
    ) -> str | None:
        """Return why no host takes a server; None if one does.

        Hosts are judged as by ``sriov-rt explain``, and as if each were
        empty. The first call waits for the agents' reports.

        :param vcpus: number of vCPUs of the flavor.
        :param memory_mib: memory of the flavor, MiB.
        :param max_age_s: age in seconds at which facts are stale.
        :returns: a clause.
        """
        found: dict[str, tuple[Reason, ...]] = {}

        def passes() -> bool:
            found.clear()
            for name, entry in list(self._heard.table.entries.items()):
                view = decide.View(
                    now=time.time(),
                    facts_age_s=time.monotonic() - entry.confirmed,
                    max_age_s=max_age_s,
                )
                reasons = decide.why_not(request, entry.facts, view)
                reasons += decide.why_never(
                    request, vcpus, memory_mib, entry.facts
                )
                if not reasons:
                    return True
                found[name] = reasons
            return False

        self._heard.warm_up(passes)
        if passes():
            return None
        if not found:
            return (
                "no host has reported its facts; check that sriov-rt-agent "
                "runs and that [sriov_rt] transport_url in magnum.conf names "
                "its message queue"
            )
        return _sentence(found.items())


def max_age_s(conf: cfg.ConfigOpts) -> float:
    """Return the age at which facts are stale, an option of the filter."""
    options.register(conf)
    found: float = conf[options.GROUP].facts_max_age
    return found


def _sentence(found: Iterable[tuple[str, tuple[Reason, ...]]]) -> str:
    every = [
        f"{name}: {reasons[0].message}" for name, reasons in sorted(found)
    ]
    return f"no host takes it ({first_of(every, MAX_HOSTS, '; ')})"
