# SPDX-License-Identifier: Apache-2.0

"""Tests in namespaces of their own, which leave the machine alone.

Each test runs in a thread that has left the process's network and mount
namespaces: its links, its /sys, its /run/netns and all that it makes there
are gone when it ends, whatever becomes of it.
"""

import fcntl
import json
import os
import pathlib
import tempfile
import unittest
import uuid
from collections.abc import Callable
from concurrent import futures
from typing import Any

from sriov_rt.kernel.link import Link
from sriov_rt.kernel.link import Subinterface
from sriov_rt.kernel.links import Links
from tests.testbed.isolation import leave
from tests.testbed.isolation import sh
from tests.testbed.isolation import wire
from tests.testbed.waiting import wait_for

MAC = "02:00:5e:10:00:01"

#: Seconds in which the kernel has ended a namespace.
PATIENCE = 60.0

#: One such test at a time: the kernel counts the interfaces of all
#: namespaces, also of those that a test beside it has hidden.
_ALONE = pathlib.Path(tempfile.gettempdir()) / "sriov-rt-isolated-tests.lock"


class IsolatedTestCase(unittest.TestCase):
    """A host of its own: vf0, wired to peer0, and the namespace ``tenant``."""

    def run(self, result: Any = None) -> Any:
        """Run in a thread, which takes its namespaces with it."""
        if os.geteuid() != 0:
            self._testMethodName = "_needs_root"
            return super().run(result)
        with _ALONE.open("w") as lock, futures.ThreadPoolExecutor(1) as pool:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return pool.submit(super().run, result).result()

    def _needs_root(self) -> None:
        self.skipTest("namespaces are made by root")

    def setUp(self) -> None:
        """Make the host."""
        super().setUp()
        # Tests that run beside it have interfaces, too.
        self.alias = f"sriov-rt:{uuid.uuid4()}:tester"
        if os.geteuid() != 0:
            return
        leave()
        sh("ip", "netns", "add", "tenant")
        wire("vf0", "peer0")
        self.links = Links()

    def ip(self, *words: str, namespace: str | None = "tenant") -> Any:
        """Return what ``ip -j`` says.

        :param namespace: None for the host.
        """
        where = [] if namespace is None else ["-n", namespace]
        return json.loads(sh("ip", "-d", "-j", *where, *words) or "[]")

    def make(self, **changes: Any) -> Link:
        """Make a macvlan on vf0 in the tenant's namespace."""
        asked: dict[str, Any] = {
            "name": "srt0",
            "kind": "macvlan",
            "mode": "bridge",
            "parent": "vf0",
            "namespace": "tenant",
            "mac": MAC,
            "alias": self.alias,
        }
        return self.links.create(Subinterface(**(asked | changes)))


def until(what: str, probe: Callable[[], bool]) -> None:
    """Wait until a function returns something true.

    :param what: what is waited for.
    :param probe: the function.
    """
    wait_for(what, probe, timeout=PATIENCE, interval=0.01, unanswered=())
