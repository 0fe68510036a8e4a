# SPDX-License-Identifier: Apache-2.0

"""Messages between agents and schedulers, over oslo.messaging.

Agents cast reports to all schedulers (and any other listeners); listeners
cast ``report_now`` to all agents. Nothing waits for an answer: the digest in
the next heartbeat reveals a lost message.

=============== ==================== =====================================
topic           method               arguments
=============== ==================== =====================================
sriov_rt        facts                host, node, digest, document (JSON)
sriov_rt        heartbeat            host, node, digest
sriov_rt        gone                 host, node
sriov_rt_agent  report_now           hosts: their names, or None for all
=============== ==================== =====================================

The context of a report names the sending agent (:data:`AGENT`): its machine
and a number for the process.

Notifications for operators are sent as ``[oslo_messaging_notifications]``
says, as in any OpenStack service.
"""

import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import oslo_messaging
from oslo_config import cfg

from sriov_rt import config

LOG = logging.getLogger(__name__)

EXCHANGE = "sriov_rt"
VERSION = "1.0"
REPORT_TOPIC = "sriov_rt"
AGENT_TOPIC = "sriov_rt_agent"

#: Key in a report's context of the agent's name, which is not its host's.
AGENT = "agent"

#: Port of a broker whose URL has none.
_AMQP_PORT = 5672

#: RabbitMQ's message for reports without a listener. It deletes the exchange
#: with the last listener's queue, half an hour after that listener left
#: ([oslo_messaging_rabbit] rabbit_transient_queues_ttl). oslo.messaging
#: declares an exchange only once per connection.
_NO_LISTENER = f"NOT_FOUND - no exchange '{REPORT_TOPIC}_fanout'"

#: RabbitMQ's words (403 and 530) if it refuses a user, a password or access to
#: the virtual host. Later attempts can't help: options are read at the start.
_REFUSES = ("ACCESS_REFUSED", "NOT_ALLOWED")


@contextlib.contextmanager
def _well_formed() -> Iterator[None]:
    """Translate a ValueError, whose text may have a part of the password.

    That is so where a "/" in it ends what urllib takes for host and port.

    :raises oslo_messaging.InvalidTransportURL: in its place.
    """
    try:
        yield
    except ValueError:
        raise oslo_messaging.InvalidTransportURL(
            "", "transport_url is malformed; percent-encode its password"
        ) from None


def transport(conf: cfg.ConfigOpts) -> oslo_messaging.transport.RPCTransport:
    """Return a transport to the queue that the configuration names.

    :param conf: with ``[sriov_rt] transport_url`` registered by this call.
    :raises oslo_messaging.InvalidTransportURL: for a malformed URL.
    """
    conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
    with _well_formed():
        return oslo_messaging.get_rpc_transport(
            conf, url=conf.sriov_rt.transport_url
        )


def url(conf: cfg.ConfigOpts) -> oslo_messaging.TransportURL:
    """Return the URL of that queue, with its password.

    :raises oslo_messaging.InvalidTransportURL: if it cannot be parsed.
    """
    conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
    with _well_formed():
        return oslo_messaging.TransportURL.parse(
            conf, conf.sriov_rt.transport_url
        )


def brokers(conf: cfg.ConfigOpts) -> str:
    """Return the brokers of the queue for a log, without user or password."""
    try:
        parsed = url(conf)
    except oslo_messaging.MessagingException:
        return "a transport_url that cannot be parsed"
    found = ", ".join(
        f"{each.hostname}:{each.port or _AMQP_PORT}"
        for each in parsed.hosts
        if each.hostname
    )
    return found or str(parsed.transport)


def unusable(conf: cfg.ConfigOpts, timeout_s: float = 2.0) -> str | None:
    """Return why the queue that the configuration names can't be used.

    The URL is parsed, its driver is loaded, and one of its brokers has to
    accept a connection; no user logs in. Checking ``[DEFAULT] transport_url``
    is left to the service itself.

    :param timeout_s: time limit for each broker, seconds.
    :returns: a clause; None if no problem was found.
    """
    conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
    if not conf.sriov_rt.transport_url:
        return None
    try:
        transport(conf).cleanup()
        hosts = url(conf).hosts
    except oslo_messaging.MessagingException as error:
        # Its text has the URL, and with it the password.
        return f"it is malformed: {type(error).__name__}"
    problems = []
    for each in hosts:
        if not each.hostname:
            continue
        place = (each.hostname, each.port or _AMQP_PORT)
        try:
            socket.create_connection(place, timeout_s).close()
        except OSError as error:
            problems.append(
                f"{place[0]}:{place[1]}: {error.strerror or error}"
            )
        else:
            return None
    return f"no broker answers ({', '.join(problems)})" if problems else None


def target(topic: str, server: str | None = None) -> oslo_messaging.Target:
    """Return the target of a topic.

    :param server: the listener's own name, unique among all; None for a
        sender, whose casts reach every listener.
    """
    return oslo_messaging.Target(
        exchange=EXCHANGE,
        topic=topic,
        version=VERSION,
        server=server,
        fanout=server is None,
    )


def remedy(error: str) -> str:
    """Return what to do about an unusable queue, a clause.

    :param error: the driver's error message.
    """
    if any(each in error for each in _REFUSES):
        return (
            "write a user and password that it accepts into transport_url, "
            "and restart sriov-rt-agent"
        )
    return "check that the message queue runs and that transport_url names it"


def nobody_listens(error: str) -> bool:
    """Return whether a report was refused only because nobody listens.

    The next connection declares the exchange again.

    :param error: the driver's error message.
    """
    return _NO_LISTENER in error


def log_no_listener_once() -> None:
    """Filter oslo.messaging's log messages about :func:`nobody_listens`.

    It calls the broker unreachable, at ERROR, before the sender can know why.
    All its other messages are still logged.
    """
    # A logger adds the same function only once.
    logging.getLogger("oslo.messaging._drivers.impl_rabbit").addFilter(
        _names_a_fault
    )


def _names_a_fault(record: logging.LogRecord) -> bool:
    return not nobody_listens(record.getMessage())


def stop(server: Any, client: Any, method: str, **arguments: Any) -> None:
    """Stop an RPC server without waiting seconds for an idle one.

    RabbitMQ's driver waits for messages for up to 5 s before it notices that
    it should stop (ACK_REQUEUE_EVERY_SECONDS_MAX in oslo.messaging's
    _drivers/amqpdriver.py). A message ends that wait.

    :param client: sends to the server, trying once.
    :param method: a method that does nothing with these arguments.
    """
    try:
        client.cast({}, method, **arguments)
    except Exception:
        # Errors have no common base. Without the message the server stops
        # later.
        LOG.debug("the message to itself was not sent", exc_info=True)
    server.stop()
    server.wait()


def notifier(
    conf: cfg.ConfigOpts, publisher: str
) -> oslo_messaging.Notifier | None:
    """Return a sender of notifications; None without a driver.

    They go to the queue of :func:`transport`, unless
    ``[oslo_messaging_notifications] transport_url`` names another one.

    :param publisher: the sender's name, such as ``sriov-rt-agent:rt-1``.
    :raises oslo_messaging.InvalidTransportURL: for a malformed URL.
    """
    conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
    with _well_formed():
        # It registers the options, too.
        transport = oslo_messaging.get_notification_transport(conf)
        options = conf.oslo_messaging_notifications
        if not options.driver:
            return None
        if not options.transport_url:
            transport = oslo_messaging.get_notification_transport(
                conf, url=conf.sriov_rt.transport_url
            )
    return oslo_messaging.Notifier(transport, publisher)
