# SPDX-License-Identifier: Apache-2.0

"""Facts of hosts, collected from the agents over the message queue."""

import argparse
import logging
import math
import os
import pathlib
import re
import socket
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt.cmd import arguments
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Caller
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.facts import HostFacts
from sriov_rt.host.root import CONFIG
from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.service import threads

LOG = logging.getLogger(__name__)

#: Variable from which oslo.config reads ``[sriov_rt] transport_url`` first.
TRANSPORT_VARIABLE = "OS_SRIOV_RT__TRANSPORT_URL"
#: Configuration files that are tried by default: the first is on a scheduler's
#: host, the second on a compute host.
CONFIG_FILES = ("/etc/nova/nova.conf", f"/{CONFIG}")

#: Seconds that agents have to report. Their answers are spread over 2 s.
WAIT_S = 6.0

#: Logger of oslo.messaging's drivers, which log why they cannot connect.
_DRIVERS = "oslo.messaging"

_RETRYING = re.compile(r" \(retrying in [0-9.]+ seconds\)")

#: Logger of the AMQP library. It warns of each channel that the broker closes
#: at the same moment: "Received method (60, 30) during closing".
_PROTOCOL = "amqp"

#: A broker's reply codes for a wrong user, password or virtual host:
#: access-refused and not-allowed (AMQP 0-9-1, 1.1).
_REFUSALS = frozenset({403, 530})

#: Seconds between two checks of the reports.
_POLL_S = 0.1

#: Seconds without a report after which all agents are taken to have answered,
#: if it is not known which agents exist.
_QUIET_S = 3.0


class QueueUnusable(exceptions.SriovRtError):
    """The message queue can't be used, or no agent answers on it.

    :param problem: a clause.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"{problem}; check that --config-file or --transport-url names "
            "the message queue of the agents, and that they run"
        )


#: Problem of a readable file that names no queue.
NO_QUEUE = "no transport_url"


class QueueUnnamed(exceptions.SriovRtError):
    """No configuration names the message queue.

    :param problems: why each file does not name one, by file name.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        tried = ", ".join(f"{path} ({why})" for path, why in problems.items())
        do = "run as a user who may read one of them"
        if NO_QUEUE in problems.values():
            do = "set [sriov_rt] transport_url there"
        super().__init__(
            f"no configuration names the message queue: {tried}; {do}, or "
            "name the queue with --config-file or --transport-url"
        )


class BrokerUnreachable(QueueUnusable):
    """The message queue does not answer.

    :param broker: host and port of each broker.
    :param cause: what the driver logged.
    """

    def __init__(self, broker: str, cause: str) -> None:
        self.broker = broker
        self.cause = cause
        super().__init__(
            f"the message queue {broker} cannot be reached: {cause}"
        )


class BrokerRefuses(exceptions.SriovRtError):
    """The message queue answers, but refuses these credentials.

    :param broker: host and port of each broker.
    :param user: user in the transport URL.
    :param virtual_host: virtual host in the transport URL.
    """

    def __init__(
        self, broker: str, user: str, virtual_host: str, cause: str
    ) -> None:
        self.broker = broker
        self.user = user
        self.virtual_host = virtual_host
        self.cause = cause
        self.problem = (
            f"the message queue {broker} refuses user {user!r} on virtual "
            f"host {virtual_host!r} ({cause})"
        )
        super().__init__(
            f"{self.problem}; correct them and the password "
            "in --transport-url, or in transport_url of [sriov_rt] or "
            "[DEFAULT] of the configuration file"
        )


class _Causes(logging.Handler):
    """Keeps the last error that a driver of oslo.messaging logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first line of a record."""
        first = record.getMessage().partition("\n")[0]
        # There is no next attempt.
        self.last = _RETRYING.sub("", first)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the message queue."""
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        help="a configuration file that names the message queue; may be "
        f"repeated (default: {' and '.join(CONFIG_FILES)}, where readable)",
    )
    parser.add_argument(
        "--transport-url",
        metavar="URL",
        help="the message queue on which the agents report",
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=arguments.seconds(3600),
        default=WAIT_S,
        help="how long agents have to report (default: %(default)g)",
    )


def from_args(
    caller: Caller,
    args: argparse.Namespace,
    expected: Sequence[str] | None,
    *,
    whole: bool = False,
) -> list[Candidate]:
    """Return the hosts by the options of :func:`configure`.

    See :func:`collect` for the parameters and exceptions.
    """
    return collect(
        expected,
        config_files=args.config_file,
        transport_url=args.transport_url,
        wait_s=args.wait,
        report=faults.progress(is_quiet=caller.is_quiet),
        whole=whole,
    )


class Collector(FactsTable):
    """Reported facts of hosts, with what is shown to people.

    :param max_hosts: as for a scheduler's table.
    :param whole: keep all facts, not only those that decisions read.
    :ivar heard: when the last report arrived.
    :ivar refused: what is wrong with refused facts, by host.
    """

    def __init__(self, max_hosts: int, *, whole: bool = False) -> None:
        super().__init__(max_hosts, math.inf)
        self.heard = math.inf
        self.refused: dict[str, str] = {}
        self._whole = whole
        self._shown: dict[str, tuple[str, HostFacts | None]] = {}

    def put(self, host: str, digest: str, facts: HostFacts) -> bool:
        """Keep a host's facts; False if the table is full."""
        self.heard = time.monotonic()
        self._shown[host] = facts.version, facts if self._whole else None
        self.refused.pop(host, None)
        return super().put(host, digest, facts)

    def refuse(self, host: str, problem: str) -> None:
        """Drop a host whose facts cannot be read, and keep the problem."""
        self.heard = time.monotonic()
        # Senders choose these names, so their number is limited.
        if len(self.refused) < self._max_hosts:
            self.refused[host] = problem
        super().refuse(host, problem)

    def confirm(self, host: str, digest: str) -> bool:
        """Confirm a host's facts; return False if they are other ones."""
        self.heard = time.monotonic()
        return super().confirm(host, digest)

    def names(self) -> set[str]:
        """Return the hosts that have reported."""
        return set(self.entries)

    def candidates(
        self, expected: Sequence[str], max_age_s: float
    ) -> list[Candidate]:
        """Return every host that was expected or has reported, by name."""
        now, entries = time.monotonic(), dict(self.entries)
        found = []
        for name in sorted({*expected, *entries, *self.rivals}):
            entry = entries.get(name)
            if entry is None:
                found.append(
                    Candidate(
                        name,
                        None,
                        max_age_s=max_age_s,
                        agents=self.rivals.of(name),
                    )
                )
                continue
            version, reported = self._shown[name]
            found.append(
                Candidate(
                    name,
                    entry.facts,
                    age_s=now - entry.confirmed,
                    max_age_s=max_age_s,
                    version=version,
                    reported=reported,
                )
            )
        return found


class Hearing:
    """Listens to the agents in a thread, from its creation until stopped.

    :param whole: see :class:`Collector`.
    :raises QueueUnusable: if the configured queue can't be used.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        whole: bool = False,
    ) -> None:
        from sriov_rt.scheduler import listener

        self.collector = Collector(conf.sriov_rt.facts_max_hosts, whole=whole)
        self._failure: Exception | None = None
        try:
            self._listener = listener.Listener(
                conf,
                f"sriov-rt-explain.{socket.gethostname()}",
                self.collector,
            )
        except Exception as error:
            # As in scheduler.listener: the errors have no common base class.
            raise QueueUnusable(str(error)) from error
        # A daemon, so that the command can exit although the queue is down.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(
        self,
        expected: Sequence[str] | None,
        wait_s: float,
        report: Callable[[str], None],
    ) -> None:
        """Wait for the reports; see :func:`collect`.

        :raises QueueUnusable: if the queue turns out to be unusable.
        """
        count, ending = -1, time.monotonic() + wait_s
        while time.monotonic() < ending:
            if self._failure is not None:
                raise QueueUnusable(str(self._failure)) from self._failure
            names = self.collector.names()
            if len(names) != count:
                count = len(names)
                report(reported(names, expected))
            if expected is None:
                if time.monotonic() - self.collector.heard > _QUIET_S:
                    return
            elif names.issuperset(expected):
                return
            time.sleep(_POLL_S)

    def stop(self, patience_s: float = 1.0) -> None:
        """Stop listening to the agents.

        :param patience_s: how long to wait for the listener, in seconds.
        """
        self._listener.stop()
        self._thread.join(patience_s)

    def _run(self) -> None:
        try:
            self._listener.run()
        except Exception as error:
            LOG.debug("Listening failed", exc_info=True)
            self._failure = error


def collect(
    expected: Sequence[str] | None,
    *,
    config_files: Sequence[str] | None,
    transport_url: str | None,
    wait_s: float,
    report: Callable[[str], None],
    whole: bool = False,
) -> list[Candidate]:
    """Return the hosts, and the facts of those that reported in time.

    :param expected: hosts that should report; None if that is not known.
    :param config_files: files that name the message queue; None for
        :data:`CONFIG_FILES`.
    :param transport_url: names the queue instead of these files.
    :param wait_s: seconds that the agents have to report.
    :param report: prints progress.
    :param whole: keep all facts of each host.
    :raises BrokerUnreachable: if the queue does not answer.
    :raises ConfigurationUnreadable: for a file that can't be read.
    :raises QueueUnusable: if it can't be listened to, or no host is known.
    """
    threads.choose()
    conf = configuration(config_files, transport_url)
    collector = _heard(conf, expected, wait_s, report, whole=whole)
    found = collector.candidates(expected or (), conf.sriov_rt.facts_max_age)
    if not found:
        raise QueueUnusable(f"no agent reported within {wait_s:g} s")
    return found


def hear(
    config_files: Sequence[str],
    wait_s: float,
    report: Callable[[str], None],
) -> Collector:
    """Return what agents reported in time, and what was refused.

    See :func:`collect` for the parameters and exceptions; here it is no error
    if no agent has reported.
    """
    threads.choose()
    conf = configuration(config_files, None)
    return _heard(conf, None, wait_s, report, whole=False)


def _heard(
    conf: cfg.ConfigOpts,
    expected: Sequence[str] | None,
    wait_s: float,
    report: Callable[[str], None],
    *,
    whole: bool,
) -> Collector:
    from sriov_rt.service import messaging

    causes, drivers = _Causes(), logging.getLogger(_DRIVERS)
    drivers.addHandler(causes)
    protocol = logging.getLogger(_PROTOCOL)
    if not protocol.isEnabledFor(logging.INFO):
        protocol.setLevel(logging.ERROR)
    try:
        hearing = Hearing(conf, whole=whole)
        try:
            hearing.wait(expected, wait_s, report)
        finally:
            hearing.stop()
    except QueueUnusable as error:
        if (refused := _refusal(conf, error)) is not None:
            raise refused from error
        raise
    finally:
        drivers.removeHandler(causes)
    if causes.last and not hearing.collector.names():
        raise BrokerUnreachable(messaging.brokers(conf), causes.last)
    return hearing.collector


def reported(names: set[str], expected: Sequence[str] | None) -> str:
    """Return how many hosts have reported, a clause.

    :param names: hosts that have reported.
    :param expected: hosts that should; None if that is not known.
    """
    if expected is None:
        hosts = "host has" if len(names) == 1 else "hosts have"
        return f"{len(names)} {hosts} reported"
    known = len(names.intersection(expected))
    hosts = "host has" if len(expected) == 1 else "hosts have"
    others = len(names) - known
    them = "it" if len(expected) == 1 else "them"
    beside = f", and {others} beside {them}" if others else ""
    return f"{known} of {len(expected)} {hosts} reported{beside}"


def _refusal(
    conf: cfg.ConfigOpts, error: QueueUnusable
) -> BrokerRefuses | None:
    """Return a broker's refusal; None for any other error."""
    from sriov_rt.service import messaging

    # amqp's errors by their attribute: the driver may use another library.
    cause = error.__cause__
    if getattr(cause, "reply_code", None) not in _REFUSALS:
        return None
    url = messaging.url(conf)
    users = sorted({each.username or "" for each in url.hosts})
    text = str(getattr(cause, "reply_text", cause)).partition(". ")[0]
    return BrokerRefuses(
        messaging.brokers(conf),
        ", ".join(users),
        url.virtual_host or "/",
        text,
    )


def configuration(
    files: Sequence[str] | None, transport_url: str | None
) -> cfg.ConfigOpts:
    """Return the configuration that names the message queue.

    :param files: see :func:`collect`, as for ``transport_url``.
    :raises ConfigurationUnreadable: for a file that can't be read.
    :raises QueueUnnamed: if nothing names the queue.
    """
    from sriov_rt.scheduler import options

    conf = cfg.CONF
    options.register(conf)
    if files is None:
        problems = {each: _unreadable(each) for each in CONFIG_FILES}
        files = [each for each, problem in problems.items() if not problem]
        named = transport_url is not None or TRANSPORT_VARIABLE in os.environ
        if not files and not named:
            raise QueueUnnamed(problems)
    with config.reading():
        config.check_files(files)
        conf([], project="sriov_rt", default_config_files=list(files))
        # Candidates are judged by this option. It is read now, so that a bad
        # value is found before any waiting.
        conf.sriov_rt.facts_max_age  # noqa: B018
    if not (transport_url or _names_queue(conf)):
        raise QueueUnnamed(dict.fromkeys(files, NO_QUEUE))
    if transport_url is not None:
        conf.set_override("transport_url", transport_url, group="sriov_rt")
    return conf


def _names_queue(conf: cfg.ConfigOpts) -> bool:
    """Return whether a configuration names the message queue."""
    import oslo_messaging

    from sriov_rt.service import messaging

    try:
        found = messaging.url(conf)
    except oslo_messaging.MessagingException:
        return True  # and is malformed
    # oslo.messaging's default is a RabbitMQ without a host.
    return bool(found.hosts) or found.transport != "rabbit"


def _unreadable(path: str) -> str:
    """Return why a file can't be read; empty if it can."""
    try:
        with pathlib.Path(path).open("rb"):
            return ""
    except OSError as error:
        return error.strerror or str(error)
