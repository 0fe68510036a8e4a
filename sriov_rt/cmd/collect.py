# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Facts of hosts, collected from the agents over the message queue."""

import argparse
import logging
import math
import pathlib
import socket
import threading
import time
import warnings
from collections.abc import Callable
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import exceptions
from sriov_rt import facts as host_facts
from sriov_rt.cmd import arguments
from sriov_rt.cmd import faults
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.facts import HostFacts
from sriov_rt.host.root import CONFIG

LOG = logging.getLogger(__name__)

#: Configuration files that are tried if none is named: a scheduler's host
#: has the one, a compute host the other.
CONFIG_FILES = ("/etc/nova/nova.conf", f"/{CONFIG}")

#: Seconds that agents have to report. Their answers are spread over 2 s.
WAIT_S = 6.0

#: Where oslo.messaging's drivers log why they cannot connect.
_DRIVERS = "oslo.messaging"

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
            f"{problem}; see that --config-file or --transport-url names the "
            "message queue of the agents, and that they run"
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


class _Causes(logging.Handler):
    """Keeps the last error that a driver of oslo.messaging logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep its first line."""
        self.last = record.getMessage().partition("\n")[0]


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
    args: argparse.Namespace,
    expected: Sequence[str] | None,
    keep: Callable[[HostFacts], HostFacts] = host_facts.decisive,
) -> list[Candidate]:
    """Return the hosts as the options of :func:`configure` have it.

    See :func:`collect` for the parameters, and what is raised.
    """
    return collect(
        expected,
        config_files=args.config_file,
        transport_url=args.transport_url,
        wait_s=args.wait,
        report=faults.say,
        keep=keep,
    )


class Collector:
    """Facts of hosts, as they are reported.

    :ivar heard: when the last report came.
    """

    def __init__(self) -> None:
        self.heard = math.inf
        self._found: dict[str, tuple[HostFacts, str, float]] = {}

    def put(self, host: str, digest: str, facts: HostFacts) -> bool:
        """Take in a host's facts."""
        self.heard = time.monotonic()
        self._found[host] = facts, digest, self.heard
        return True

    def confirm(self, host: str, digest: str) -> bool:
        """Note that facts hold; False if these are not the host's."""
        self.heard = time.monotonic()
        found = self._found.get(host)
        if found is None or found[1] != digest:
            return False
        self._found[host] = *found[:2], self.heard
        return True

    def forget(self, host: str) -> None:
        """Drop a host."""
        self._found.pop(host, None)

    def names(self) -> set[str]:
        """Return the hosts that were heard of."""
        return set(self._found)

    def candidates(
        self, expected: Sequence[str], max_age_s: float
    ) -> list[Candidate]:
        """Return every host that was expected or heard of, by name."""
        now, found = time.monotonic(), dict(self._found)
        candidates = []
        for name in sorted({*expected, *found}):
            facts, age_s = None, None
            if name in found:
                facts, _, confirmed = found[name]
                age_s = now - confirmed
            candidates.append(Candidate(name, facts, age_s, max_age_s))
        return candidates


class Hearing:
    """Hears the agents in a thread, from when it is made until stopped.

    :param conf: names the message queue.
    :param keep: takes what is not needed out of facts.
    :raises QueueUnusable: for a queue that can't be used as it is named.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        keep: Callable[[HostFacts], HostFacts] = host_facts.decisive,
    ) -> None:
        from sriov_rt.scheduler import listener

        self.collector = Collector()
        self._failure: Exception | None = None
        try:
            self._listener = listener.Listener(
                conf,
                f"sriov-rt-explain.{socket.gethostname()}",
                self.collector,
                keep,
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
        reported, ending = -1, time.monotonic() + wait_s
        while time.monotonic() < ending:
            if self._failure is not None:
                raise QueueUnusable(str(self._failure)) from self._failure
            names = self.collector.names()
            if len(names) != reported:
                reported = len(names)
                of = "" if expected is None else f" of {len(expected)}"
                report(f"{reported}{of} hosts have reported")
            if expected is None:
                if time.monotonic() - self.collector.heard > _QUIET_S:
                    return
            elif names.issuperset(expected):
                return
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Hear the agents no more."""
        self._listener.stop()
        self._thread.join(1.0)

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
    keep: Callable[[HostFacts], HostFacts] = host_facts.decisive,
) -> list[Candidate]:
    """Return the hosts, and the facts of those that reported in time.

    :param expected: hosts that should; None if that is not known.
    :param config_files: they name the message queue; None for
        :data:`CONFIG_FILES`.
    :param transport_url: names it in their place.
    :param wait_s: seconds that the agents have to report.
    :param report: prints how far it is.
    :param keep: takes what is not needed out of facts.
    :raises BrokerUnreachable: if the queue does not answer.
    :raises QueueUnusable: if it can't be listened to, or nobody is known.
    """
    _choose_threads()
    conf = _configure(config_files, transport_url)
    causes, drivers = _Causes(), logging.getLogger(_DRIVERS)
    drivers.addHandler(causes)
    try:
        hearing = Hearing(conf, keep)
        try:
            hearing.wait(expected, wait_s, report)
        finally:
            hearing.stop()
    finally:
        drivers.removeHandler(causes)
    if causes.last and not hearing.collector.names():
        raise BrokerUnreachable(_broker(conf), causes.last)
    found = hearing.collector.candidates(
        expected or (), conf.sriov_rt.facts_max_age
    )
    if not found:
        raise QueueUnusable(f"no agent reported within {wait_s:g} s")
    return found


def _broker(conf: cfg.ConfigOpts) -> str:
    """Return where the message queue is, without its password."""
    from sriov_rt import messaging

    hosts = messaging.transport(conf)._driver._url.hosts
    return ", ".join(f"{each.hostname}:{each.port}" for each in hosts)


def _choose_threads() -> None:
    # Before oslo.messaging is imported: it imports oslo.service, which
    # settles for eventlet unless a backend is chosen by then.
    with warnings.catch_warnings():
        # futurist warns of eventlet where that is installed, in use or not.
        warnings.simplefilter("ignore", DeprecationWarning)
        from oslo_service import backend

        if backend.get_backend_type() is None:
            backend.init_backend(backend.BackendType.THREADING)
        import oslo_messaging  # noqa: F401


def _configure(
    files: Sequence[str] | None, transport_url: str | None
) -> cfg.ConfigOpts:
    from sriov_rt.scheduler import options

    conf = cfg.CONF
    options.register(conf)
    if files is None:
        files = [each for each in CONFIG_FILES if _readable(each)]
        if not files and transport_url is None:
            raise QueueUnusable(
                f"none of {', '.join(CONFIG_FILES)} can be read"
            )
    try:
        conf([], project="sriov_rt", default_config_files=list(files))
    except cfg.Error as error:
        raise QueueUnusable(str(error)) from error
    if transport_url is not None:
        conf.set_override("transport_url", transport_url, group="sriov_rt")
    return conf


def _readable(path: str) -> bool:
    try:
        with pathlib.Path(path).open("rb"):
            return True
    except OSError:
        return False
