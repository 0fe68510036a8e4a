# SPDX-License-Identifier: Apache-2.0

"""The agent and a real Neutron server, by the messages between them."""

import json
import math
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any
from unittest import mock

import in_process
import oslo_messaging
from neutron.conf.agent import common as agent_config
from neutron.db import agents_db
from neutron.tests import base
from neutron_lib import exceptions
from neutron_lib.api.definitions import portbindings
from oslo_config import cfg

from sriov_rt.neutron.ports import Ports
from sriov_rt.neutron.server import RETRY_S
from sriov_rt.neutron.server import Bindings
from sriov_rt.neutron.server import Callbacks
from sriov_rt.neutron.server import Listening
from sriov_rt.neutron.server import Server
from sriov_rt.neutron.server import ServerOutOfReach
from sriov_rt.neutron.service import Agent
from tests.unit import signatures
from tests.unit.neutron import fakes
from tests.unit.neutron.test_vf_cleaning import FakeBindings


class Wire:
    """An RPC client whose calls arrive at once, as JSON carries them."""

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint

    def prepare(self, **_options: Any) -> "Wire":
        """Return itself."""
        return self

    def call(self, context: Any, method: str, **arguments: Any) -> Any:
        """Call a method of the endpoint."""
        plain = json.loads(json.dumps(arguments))
        answer = getattr(self._endpoint, method)(context, **plain)
        return json.loads(json.dumps(answer, default=str))


class TalkTest(in_process.PluginCase):
    def setUp(self) -> None:
        super().setUp()
        agent_config.register_agent_state_opts_helper(cfg.CONF)
        self.local = fakes.FakeHost()
        self.local.parents = {"physnet1": 2}
        self.now = 0.0
        self.agents = {name: self._agent(name) for name in ("rt-1", "rt-2")}
        self.agent = self.agents["rt-1"]

    def _agent(self, host: str, local: fakes.FakeHost | None = None) -> Agent:
        server = Server(host)
        server._plugin.client = Wire(self.rpc)
        reports = agents_db.AgentExtRpcCallback(self.driver)
        # A report is older than the server's start, by a fraction, when the
        # test is quick.
        reports.START_TIME = reports.START_TIME.replace(year=2000)
        server._reports.client = Wire(reports)
        server._context = self.context
        return Agent(
            host,
            local or self.local,
            server,
            Ports(5.0),
            polling_s=2.0,
            report_s=10.0,
            crashed=lambda: self.fail("crashed"),
            monotonic=lambda: self.now,
        )

    def plug(self, port: dict[str, Any]) -> None:
        """Have nova-compute plug a port here."""
        made = fakes.plugged(len(self.local.found) + 1)
        object.__setattr__(made, "port", port["id"])
        self.local.found.append(made)

    def look(self) -> None:
        """Have the agent look, some seconds later."""
        self.now += 2.0
        self.agent.look()

    def status(self, port: dict[str, Any]) -> str:
        """Return a port's status."""
        found: str = self.shown(port)["status"]
        return found

    def test_it_is_listed_alive_with_its_parents(self):
        self.agent.report()
        (listed,) = self.driver.get_agents(self.context)
        self.assertEqual("SR-IOV RT VIF agent", listed["agent_type"])
        self.assertEqual("sriov-rt-neutron-agent", listed["binary"])
        self.assertTrue(listed["alive"])
        self.assertEqual({"physnet1": 2}, listed["configurations"]["parents"])

    def test_a_port_is_bound_by_its_report_and_active_when_plugged(self):
        self.agent.report()
        port = self.port_on("rt-1")
        self.assertEqual("sriov_rt", port[portbindings.VIF_TYPE])
        self.look()
        self.assertEqual("DOWN", self.status(port))
        self.plug(port)
        self.look()
        self.assertEqual("ACTIVE", self.status(port))
        self.local.found.clear()
        self.look()
        self.assertEqual("DOWN", self.status(port))

    def test_a_port_that_is_set_down_is_down(self):
        self.agent.report()
        port = self.port_on("rt-1")
        self.plug(port)
        self.look()
        for up, status in ((False, "DOWN"), (True, "ACTIVE")):
            self.driver.update_port(
                self.context, port["id"], {"port": {"admin_state_up": up}}
            )
            Callbacks("rt-1", self.agent.touched).port_update(
                self.context, port=self.shown(port)
            )
            self.look()
            self.assertEqual(status, self.status(port))

    def test_after_a_live_migration_the_new_host_makes_it_active(self):
        for each in self.agents.values():
            each.report()
        port = self.port_on("rt-1")
        self.plug(port)
        self.look()
        elsewhere = fakes.FakeHost(*self.local.found)
        new = self._agent("rt-2", elsewhere)
        self.driver.create_port_binding(
            self.context,
            port["id"],
            {"binding": {"host": "rt-2", "vnic_type": "normal"}},
        )
        # Plugged at both ends: it is the old host's still.
        new.look()
        self.assertEqual("ACTIVE", self.status(port))
        self.driver.activate(self.context, "rt-2", port["id"])
        self.assertEqual("DOWN", self.status(port))
        self.local.found.clear()
        self.look()
        Callbacks("rt-2", new.touched).binding_activate(
            self.context, port_id=port["id"], host="rt-2"
        )
        new.look()
        self.assertEqual("ACTIVE", self.status(port))

    def test_it_is_active_though_that_message_was_lost(self):
        for each in self.agents.values():
            each.report()
        port = self.port_on("rt-2")
        self.plug(port)
        self.look()
        self.assertEqual("DOWN", self.status(port))
        self.driver.update_port(
            self.context, port["id"], {"port": {portbindings.HOST_ID: "rt-1"}}
        )
        self.now += 5.0
        self.look()
        self.assertEqual("ACTIVE", self.status(port))

    def test_other_hosts_messages_are_of_no_matter(self):
        touched: list[str] = []
        hear = Callbacks("rt-1", touched.append)
        hear.binding_activate(self.context, port_id="p", host="rt-2")
        hear.binding_activate(self.context, port_id=None, host="rt-1")
        hear.binding_deactivate(self.context, port_id="p", host="rt-1")
        hear.port_update(self.context, port=None)
        hear.port_update(self.context, port={"id": 7})
        self.assertEqual([], touched)

    def test_a_deleted_port_is_of_no_matter(self):
        self.agent.report()
        port = self.port_on("rt-1")
        self.plug(port)
        self.look()
        self.driver.delete_port(self.context, port["id"])
        self.agent.resync()
        self.look()
        self.local.found.clear()
        self.look()


class FakesTest(base.BaseTestCase):
    def test_the_unit_tests_servers_are_as_these(self) -> None:
        for fake, real in (
            (fakes.FakeServer, Server),
            (FakeBindings, Bindings),
        ):
            self.assertEqual([], signatures.differences(fake, real))
            self.assertEqual(set(), signatures.missing(fake, real))


class ListeningTest(base.BaseTestCase):
    def test_a_queue_that_is_away_is_tried_again_and_no_stop_waits_for_it(
        self,
    ):
        callbacks = mock.Mock()
        callbacks.listen.side_effect = [
            ServerOutOfReach(oslo_messaging.MessagingTimeout("no answer")),
            None,
        ]
        listening = Listening(callbacks, lambda: self.fail("crashed"))
        self.assertEqual(RETRY_S, listening._listen())
        self.assertEqual(math.inf, listening._listen())
        callbacks.reset_mock()
        listening.stop()
        self.assertEqual([], callbacks.mock_calls)

    def test_a_port_that_has_left_a_host_is_of_no_matter(self):
        Callbacks("rt-1", self.fail).binding_deactivate({})

    def test_what_neutron_server_cannot_do_is_out_of_reach(self):
        agent_config.register_agent_state_opts_helper(cfg.CONF)
        server = Server("rt-1")
        for error in (
            oslo_messaging.MessagingTimeout("no answer"),
            exceptions.NeutronException(),
        ):
            client = mock.Mock()
            client.prepare.return_value.call.side_effect = error
            server._plugin.client = server._reports.client = client
            for ask in (
                lambda: server.port_states(["p"]),
                lambda: server.set_status(["p"], []),
                lambda: server.report({}, starting=True),
            ):
                raised = self.assertRaises(ServerOutOfReach, ask)
                self.assertIn(type(error).__name__, str(raised))


CONFIGURATION = """
[DEFAULT]
host = rt-1
transport_url = {queue}
state_path = {place}
rpc_response_timeout = 1
[oslo_concurrency]
lock_path = {place}
[agent]
report_interval = 1
[sriov_rt_agent]
config_file = {place}/sriov-rt.conf
polling_interval = 0.2
"""

#: The agent, with Ctrl-C while it recovers the host's ports.
INTERRUPTED = """
import os
import signal
import sys
from unittest import mock
from sriov_rt.neutron import agent
from sriov_rt.neutron.this_host import ThisHost

def interrupt(self):
    # A shell's background jobs ignore it, and Python with them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)

with mock.patch.object(ThisHost, "recover", interrupt):
    sys.exit(agent.main(sys.argv[1:]))
"""


class ProcessTest(base.BaseTestCase):
    """The agent as a process, on this machine's kernel."""

    def setUp(self) -> None:
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.log = self.place / "log"
        self.configure("")

    def configure(self, parents: str, queue: str = "fake://") -> None:
        """Write neutron's configuration, and this host's section [vif]."""
        (self.place / "neutron.conf").write_text(
            CONFIGURATION.format(place=self.place, queue=queue)
        )
        (self.place / "sriov-rt.conf").write_text(
            f"[vif]\nrecords = {self.place}/records\nparents = {parents}\n"
        )

    def start(self, *program: str) -> subprocess.Popen[bytes]:
        """Start the agent.

        :param program: for the interpreter, in place of the agent's own.
        """
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                (
                    *(sys.executable, "-W", "ignore"),
                    *(program or ("-m", "sriov_rt.neutron.agent")),
                    *("--config-file", str(self.place / "neutron.conf")),
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.addCleanup(self._end, process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.kill()
            process.wait()

    def wait_for(self, text: str, seconds: float = 300.0) -> None:
        """Wait until a text is in the log."""
        deadline = time.monotonic() + seconds
        while text not in self.log.read_text():
            if time.monotonic() > deadline:
                self.fail(f"no '{text}' in the log:\n{self.log.read_text()}")
            time.sleep(0.05)

    def test_without_a_server_it_goes_on_and_stops_when_told(self):
        process = self.start()
        self.wait_for(
            "host=rt-1 its state was not reported: neutron-server gives no"
        )
        process.send_signal(signal.SIGHUP)
        self.wait_for("status of all ports: SIGHUP")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(120), self.log.read_text())

    def test_sigusr2_writes_a_report_and_neither_signal_ends_it(self):
        process = self.start()
        self.wait_for("its state was not reported")
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        self.wait_for("Guru Meditation")
        self.wait_for("product = sriov-rt")
        self.wait_for("polling_interval = 0.2")
        # Looking for those can end another thread.
        self.assertNotIn("Green Threads", self.log.read_text())
        process.send_signal(signal.SIGHUP)
        self.wait_for("status of all ports: SIGHUP")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(120), self.log.read_text())

    def test_ctrl_c_while_it_starts(self):
        process = self.start("-c", INTERRUPTED)
        self.assertEqual(130, process.wait(300), self.log.read_text())
        log = self.log.read_text()
        self.assertNotIn("Traceback", log)
        self.assertIn("sriov-rt-neutron-agent: interrupted\n", log)

    def test_without_a_message_queue_it_stops_when_told(self):
        self.configure("", "rabbit://guest:guest@127.0.0.1:1/")
        process = self.start()
        self.wait_for("Connection refused")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(120), self.log.read_text())

    def test_a_configuration_that_cannot_be_ends_it_with_a_sentence(self):
        self.configure("nonsense")
        self.assertEqual(2, self.start().wait(300))
        self.assertIn("sriov-rt-neutron-agent: error: ", self.log.read_text())
