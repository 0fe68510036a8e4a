# SPDX-License-Identifier: Apache-2.0

"""A host on hold whose Placement does not answer.

Placement is a real one behind a socket, and the agent a process of its own
that observes a host of files.
"""

import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid
from collections.abc import Callable
from wsgiref import simple_server

import requests
from placement import deploy
from placement.tests.functional.fixtures import placement

from sriov_rt.cmd import host_maintenance
from sriov_rt.facts import HostHold
from sriov_rt.host import maintenance
from sriov_rt.host.root import Root
from tests.periodic import periodic
from tests.testbed import errors
from tests.testbed import paths
from tests.testbed.waiting import wait_for
from tests.unit.host import trees

REALTIME = "CUSTOM_SRIOV_RT_REALTIME"

_AGENT = """
[DEFAULT]
host = rt-1
transport_url = fake://
[agent]
root = {root}
observe_interval = 0.5
stop_timeout = 3
[labels]
store =
[placement]
auth_type = admin_token
endpoint = http://127.0.0.1:{port}
token = admin
"""

#: The agent tries again after 30 seconds at most.
PATIENCE_S = 90.0


class _Silent(simple_server.WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Log nothing."""


@periodic
class PlacementDownTest(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        fixture = placement.PlacementFixture(use_intercept=False)
        fixture.setUp()
        self.addCleanup(fixture.cleanUp)
        self.app = deploy.loadapp(fixture.conf_fixture.conf)
        self.port = 0
        self.server: simple_server.WSGIServer | None = None
        self.addCleanup(self.end_placement)
        self.begin_placement()
        self.uuid = str(uuid.uuid4())
        self.ask("POST", "", json={"name": "rt-1", "uuid": self.uuid})
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        tree = trees.realtime_host(self.place)
        # No interrupt fires on a dedicated CPU.
        tree.write("proc/irq/26/effective_affinity_list", "0\n")
        tree.write("proc/irq/26/smp_affinity_list", "0-1\n")
        self.root = Root(str(self.place))
        self.log = self.place / "agent.log"
        self.agent: subprocess.Popen[bytes] | None = None
        self.addCleanup(lambda: self.end_agent(signal.SIGKILL))

    def begin_placement(self) -> None:
        """Listen, at the same port as before."""
        self.server = simple_server.make_server(
            "127.0.0.1", self.port, self.app, handler_class=_Silent
        )
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever).start()

    def end_placement(self) -> None:
        """Listen no more: connections are refused."""
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def ask(
        self, method: str, path: str, **words: object
    ) -> requests.Response:
        found = requests.request(
            method,
            f"http://127.0.0.1:{self.port}/resource_providers{path}",
            headers={
                "X-Auth-Token": "admin",
                "OpenStack-API-Version": "placement 1.6",
            },
            timeout=30,
            **words,  # type: ignore[arg-type]
        )
        self.assertLess(found.status_code, 300, found.text)
        return found

    def wait_for_trait(self, *, there: bool) -> None:
        """Wait until the provider has REALTIME, or has it no more."""

        def is_so() -> bool:
            found = self.ask("GET", f"/{self.uuid}/traits").json()["traits"]
            return (REALTIME in found) is there

        self.wait_until(f"REALTIME: {there}", is_so)

    def begin_agent(self) -> None:
        conf = self.place / "sriov-rt.conf"
        conf.write_text(_AGENT.format(root=self.place, port=self.port))
        with self.log.open("wb") as log:
            self.agent = subprocess.Popen(
                (
                    *(sys.executable, "-m", "sriov_rt.cmd.agent"),
                    *("--config-file", conf),
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=paths.CHECKOUT,
            )

    def end_agent(self, number: signal.Signals) -> None:
        if self.agent is not None:
            self.agent.send_signal(number)
            self.agent.wait(PATIENCE_S)

    def wait_for_log(self, text: str) -> None:
        self.wait_until(
            f"the agent logs '{text}'", lambda: text in self.log.read_text()
        )

    def wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        try:
            wait_for(what, is_so, timeout=PATIENCE_S, interval=0.5)
        except errors.TimedOut:
            self.fail(f"{what}: never; {self.log.read_text()}")

    def hold(self) -> None:
        hold = HostHold("alice", "kernel 6.12", time.time())
        host_maintenance.write(self.root, hold)

    def release(self) -> None:
        host_maintenance.release(self.root, maintenance.read(self.root))

    def test_hold_and_release_while_it_is_down(self) -> None:
        """The Reason holds at once, the trait follows, across restarts."""
        self.begin_agent()
        self.wait_for_trait(there=True)
        self.end_placement()
        self.hold()
        self.wait_for_log("[host_on_hold]")
        self.wait_for_log("no answer from Placement")
        # Neither a crash nor a stop brings the trait away.
        for number in (signal.SIGKILL, signal.SIGTERM):
            self.end_agent(number)
            self.begin_agent()
            self.wait_for_log("[host_on_hold]")
        self.begin_placement()
        self.wait_for_trait(there=False)
        self.end_placement()
        self.release()
        self.wait_for_log("realtime=yes")
        self.end_agent(signal.SIGKILL)
        self.begin_placement()
        self.begin_agent()
        self.wait_for_trait(there=True)

    def test_a_hold_while_the_agent_is_stopped(self) -> None:
        """The trait that its stop could not withdraw goes at its start."""
        self.begin_agent()
        self.wait_for_trait(there=True)
        self.end_placement()
        self.end_agent(signal.SIGTERM)
        self.assertIn("were not withdrawn", self.log.read_text())
        self.hold()
        self.begin_placement()
        self.wait_for_trait(there=True)
        self.begin_agent()
        self.wait_for_trait(there=False)
        self.release()
        self.wait_for_trait(there=True)
