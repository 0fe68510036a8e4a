# SPDX-License-Identifier: Apache-2.0

"""Calls from the agent to neutron-server, and its messages."""

import logging
import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import oslo_messaging
from neutron.agent import rpc as agent_rpc
from neutron.api.rpc.callbacks import resources
from neutron.api.rpc.handlers import resources_rpc
from neutron_lib import constants
from neutron_lib import context
from neutron_lib import exceptions as neutron_exceptions
from neutron_lib.agent import constants as agent_constants
from neutron_lib.agent import topics

from sriov_rt import exceptions
from sriov_rt.neutron import options
from sriov_rt.neutron.ports import PortState
from sriov_rt.neutron.ports import port_state
from sriov_rt.service.worker import Worker

LOG = logging.getLogger(__name__)

#: Seconds until the next attempt to reach the message queue.
RETRY_S = 5.0


class ServerOutOfReach(exceptions.SriovRtError):
    """neutron-server did not answer, or a call failed there."""

    def __init__(self, why: Exception) -> None:
        self.why = why
        kind = type(why).__name__
        super().__init__(
            f"neutron-server gives no answer ({kind}: {why}); check that "
            "RabbitMQ and neutron-rpc-server run, the agent tries again"
        )


class Server:
    """The calls that the agent makes.

    :param host: the name that Neutron calls this host by.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._id = f"{options.AGENT_BINARY}.{host}"
        self._context = context.get_admin_context_without_session()
        self._plugin = agent_rpc.PluginApi(topics.PLUGIN)
        self._reports = agent_rpc.PluginReportStateAPI(topics.REPORTS)

    def port_states(self, ports: Sequence[str]) -> Mapping[str, PortState]:
        """Return the desired states of ports, without those that failed.

        :raises ServerOutOfReach: if the call fails.
        """
        with _reached():
            answer = self._plugin.get_devices_details_list_and_failed_devices(
                self._context, list(ports), self._id, self._host
            )
        return {each["device"]: port_state(each) for each in answer["devices"]}

    def set_status(
        self, up: Sequence[str], down: Sequence[str]
    ) -> frozenset[str]:
        """Report which ports are up or down; return those that it refused.

        :raises ServerOutOfReach: if the call fails.
        """
        with _reached():
            answer = self._plugin.update_device_list(
                self._context, up, down, self._id, self._host
            )
        return frozenset(
            (*answer["failed_devices_up"], *answer["failed_devices_down"])
        )

    def report(
        self, configurations: Mapping[str, Any], *, starting: bool
    ) -> bool:
        """Report the agent's state; return whether it was marked as dead.

        :param starting: whether this is the first report.
        :raises ServerOutOfReach: if the call fails.
        """
        state = {
            "agent_type": options.AGENT_TYPE,
            "binary": options.AGENT_BINARY,
            "host": self._host,
            "topic": constants.L2_AGENT_TOPIC,
            "configurations": dict(configurations),
        }
        if starting:
            state["start_flag"] = True
        with _reached():
            status = self._reports.report_state(
                self._context, state, use_call=True
            )
        return bool(status == agent_constants.AGENT_REVIVED)


class Bindings:
    """VFs that ports are bound to on this host.

    They are read from the port itself, which has no side effect: a request of
    a device's details sets the port to BUILD (_get_new_status in
    neutron/plugins/ml2/rpc.py).

    :param host: the name that Neutron calls this host by.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._context = context.get_admin_context_without_session()
        self._ports = resources_rpc.ResourcesPullRpcApi()

    def slot(self, port: str) -> str | None:
        """Return the PCI address of a port's VF on this host, if any.

        :raises ServerOutOfReach: if the call fails.
        """
        try:
            with _reached(resources_rpc.ResourceNotFound):
                found = self._ports.pull(self._context, resources.PORT, port)
        except resources_rpc.ResourceNotFound:
            return None
        for binding in found.bindings:
            slot = (binding.profile or {}).get("pci_slot")
            if binding.host == self._host and isinstance(slot, str):
                return slot
        return None


class Callbacks:
    """Messages of neutron-server to the agents.

    :param host: the name that Neutron calls this host by.
    :param touched: called with a port that may have changed.
    """

    # 1.5 has binding_activate (neutron/plugins/ml2/rpc.py, AgentNotifierApi).
    target = oslo_messaging.Target(version="1.5")

    #: The messages that it handles, for agent_rpc.create_consumers.
    CONSUMERS = (
        (topics.PORT, topics.UPDATE),
        (topics.PORT_BINDING, topics.ACTIVATE),
        (topics.PORT_BINDING, topics.DEACTIVATE),
    )

    def __init__(self, host: str, touched: Callable[[str], None]) -> None:
        self._host = host
        self._touched = touched

    def port_update(self, _context: Any, **given: Any) -> None:
        """Handle a change of a port of any host."""
        port = given.get("port")
        if isinstance(port, Mapping) and isinstance(port.get("id"), str):
            self._touched(port["id"])

    def binding_activate(self, _context: Any, **given: Any) -> None:
        """Handle the move of a port to a host."""
        port = given.get("port_id")
        if given.get("host") == self._host and isinstance(port, str):
            self._touched(port)

    def binding_deactivate(self, _context: Any, **_given: Any) -> None:
        """Ignore that a port has left a host; its unplugging reports it."""

    def listen(self) -> None:
        """Receive messages from now on, until the process ends.

        :raises ServerOutOfReach: if the message queue cannot be reached.
        """
        with _reached():
            agent_rpc.create_consumers(
                [self], topics.AGENT, [list(each) for each in self.CONSUMERS]
            )


class Listening:
    """Thread that connects to the message queue and receives messages.

    Connecting blocks until the queue is available, so a thread does it.

    :param crashed: called if the thread meets an unexpected error.
    """

    def __init__(
        self, callbacks: Callbacks, crashed: Callable[[], None]
    ) -> None:
        self._callbacks = callbacks
        self._worker = Worker("listener", self._listen, crashed)

    def start(self) -> None:
        """Start connecting."""
        self._worker.start()

    def stop(self) -> None:
        """Stop connecting; the process's end closes the connection.

        Closing it here could block for ever, while the queue is unavailable.
        """
        self._worker.stop()

    def _listen(self) -> float:
        try:
            self._callbacks.listen()
        except ServerOutOfReach as error:
            LOG.warning("%s", error)
            return RETRY_S
        return math.inf


@contextmanager
def _reached(*answers: type[Exception]) -> Iterator[None]:
    """Translate errors of the message queue to ServerOutOfReach.

    :param answers: errors to leave alone, because they are answers.
    """
    try:
        yield
    except answers:
        raise
    except (
        oslo_messaging.MessagingException,
        neutron_exceptions.NeutronException,
    ) as error:
        raise ServerOutOfReach(error) from error
