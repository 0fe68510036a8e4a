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

#: oslo.config reads ``[sriov_rt] transport_url`` from it, before the files.
TRANSPORT_VARIABLE = "OS_SRIOV_RT__TRANSPORT_URL"
#: Configuration files that are tried if none is named: a scheduler's host
#: has the one, a compute host the other.
CONFIG_FILES = ("/etc/nova/nova.conf", f"/{CONFIG}")

#: Seconds that agents have to report. Their answers are spread over 2 s.
WAIT_S = 6.0

#: Where oslo.messaging's drivers log why they cannot connect.
_DRIVERS = "oslo.messaging"

_RETRYING = re.compile(r" \(retrying in [0-9.]+ seconds\)")

#: Where the library of the AMQP protocol warns of each channel that the
#: broker closes in the same moment: "Received method (60, 30) during closing".
_PROTOCOL = "amqp"

#: What a broker answers to a user, password or virtual host that is wrong:
#: access-refused and not-allowed (AMQP 0-9-1, 1.1).
_REFUSALS = frozenset({403, 530})

#: Seconds between two looks at what was reported.
_POLL_S = 0.1

#: Seconds without a report after which all agents have answered, where it is
#: not known which there are.
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


#: Why a file that can be read is of no use.
NO_QUEUE = "no transport_url"


class QueueUnnamed(exceptions.SriovRtError):
    """No configuration names the message queue.

    :param problems: file name to why it does not name one.
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

    :param broker: host and port of each.
    :param cause: what the driver logged.
    """

    def __init__(self, broker: str, cause: str) -> None:
        self.broker = broker
        self.cause = cause
        super().__init__(
            f"the message queue {broker} cannot be reached: {cause}"
        )


class BrokerRefuses(exceptions.SriovRtError):
    """The message queue answers, and lets nobody in with these credentials.

    :param broker: host and port of each.
    :param user: of the transport URL.
    :param virtual_host: likewise.
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
        """Keep its first line."""
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
    """Return the hosts as the options of :func:`configure` have it.

    See :func:`collect` for the parameters, and what is raised.
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
    """Facts of hosts, as they are reported, beside what people see of them.

    :param max_hosts: as of the table of a scheduler.
    :param whole: keep all facts, and not only what decisions read.
    :ivar heard: when the last report came.
    :ivar refused: what is wrong with facts that were refused, by host.
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
        """Drop a host whose facts cannot be read, and keep why."""
        self.heard = time.monotonic()
        # Hosts are senders' own words: as many as a table would take.
        if len(self.refused) < self._max_hosts:
            self.refused[host] = problem
        super().refuse(host, problem)

    def confirm(self, host: str, digest: str) -> bool:
        """Note that facts hold; False if these are not the host's."""
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
    """Hears the agents in a thread, from when it is made until stopped.

    :param whole: as with :class:`Collector`.
    :raises QueueUnusable: for a queue that can't be used as it is named.
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
            # As in scheduler.listener: there is no common base.
            raise QueueUnusable(str(error)) from error
        # A daemon: a queue that is down must not keep the command from ending.
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
        """Hear the agents no more.

        :param patience_s: how long the listener has to end, in seconds.
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

    :param expected: hosts that should; None if that is not known.
    :param config_files: they name the message queue; None for
        :data:`CONFIG_FILES`.
    :param transport_url: names it in their place.
    :param wait_s: seconds that the agents have to report.
    :param report: prints how far it is.
    :param whole: keep all facts of each.
    :raises BrokerUnreachable: if the queue does not answer.
    :raises ConfigurationUnreadable: for a file that can't be read.
    :raises QueueUnusable: if it can't be listened to, or nobody is known.
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
    """Return what agents reported in time, and what was refused of it.

    See :func:`collect` for the parameters, and what is raised; that no agent
    has reported is no error here.
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

    :param names: of those that have.
    :param expected: of those that should; None if that is not known.
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
    """Return what a broker refused; None if that is not what happened."""
    from sriov_rt.service import messaging

    # The errors of amqp, which need not be the driver's library.
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
        # What candidates are judged by: read here, so that a bad value is
        # found before anything is waited for.
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
