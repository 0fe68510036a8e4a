# SPDX-License-Identifier: Apache-2.0

"""An agent's reports over a real RabbitMQ, with and without a scheduler.

Run as root: ``python -m tests.functional.agent.lone_agent FILE``; FILE gets
what was logged in each case, as JSON. It has network, mount and PID
namespaces of its own.
"""

import json
import logging
import os
import pathlib
import sys
import tempfile
import types
from collections.abc import Callable

import kombu
from oslo_config import cfg
from oslo_messaging import conffixture

from sriov_rt import request
from sriov_rt.agent.publisher import Bus
from sriov_rt.agent.publisher import BusUnreachable
from sriov_rt.agent.publisher import Publisher
from sriov_rt.scheduler import options
from sriov_rt.scheduler.worker import Worker
from tests.benchmarks.scale import broker
from tests.testbed import settings
from tests.testbed.waiting import wait_for
from tests.unit import builders

#: Set where the namespaces are ours.
_INSIDE = "SRIOV_RT_LONE_AGENT_INSIDE"

#: Seconds for which RabbitMQ keeps the queue of one that left; 1800 by
#: default.
KEPT_S = 2
PATIENCE_S = 120.0

REALTIME = request.parse(
    {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
)


class Log(logging.Handler):
    """What is logged by whom, at INFO and above."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a line."""
        self.lines.append((record.levelname, record.name, record.getMessage()))

    def during(self, act: Callable[[], object]) -> list[tuple[str, str, str]]:
        """Return what is logged while something is done."""
        self.lines.clear()
        act()
        return list(self.lines)


def _exchange_is_gone() -> bool:
    # oslo.messaging calls kombu's scheme "rabbit".
    url = settings.TRANSPORT_URL.replace("rabbit://", "amqp://")
    with kombu.Connection(url) as connection:
        channel = connection.channel()
        try:
            channel.exchange_declare("sriov_rt_fanout", "fanout", passive=True)
        except connection.channel_errors:
            return True
    return False


def run(place: pathlib.Path) -> dict[str, list[tuple[str, str, str]]]:
    """Return what was logged in each case.

    :param place: a directory for the broker.
    """
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    conffixture.ConfFixture(conf, settings.TRANSPORT_URL).setUp()
    options.register(conf)
    conf.set_override(
        "rabbit_transient_queues_ttl", KEPT_S, group="oslo_messaging_rabbit"
    )
    log = Log()
    logging.getLogger().addHandler(log)
    logging.getLogger().setLevel(logging.INFO)
    queue = broker.Broker(place)
    queue.start()
    publisher = Publisher(
        "rt-1", "rt-1", Bus(conf), heartbeat_s=0.0, slack_s=0.0
    )
    host = types.SimpleNamespace(host="rt-1")

    def report() -> None:
        publisher.report_in_full()
        publisher.publish(builders.realtime_host())

    def reach() -> Worker:
        worker = Worker(conf)
        worker.start()

        def heard() -> bool:
            report()
            return not worker.verdicts.why_not(REALTIME, host)

        wait_for("the worker has the facts", heard, timeout=PATIENCE_S)
        return worker

    def fail() -> None:
        try:
            report()
        except BusUnreachable as error:
            logging.getLogger().warning("%s", error)

    found = {"before any": log.during(report) + log.during(report)}
    worker = reach()
    worker.stop()
    wait_for("the exchange is gone", _exchange_is_gone, timeout=PATIENCE_S)
    found["after the last"] = log.during(report)
    found["then"] = log.during(report)
    worker = reach()
    worker.stop()
    queue.stop()
    found["broker down"] = log.during(fail)
    return found


def main() -> int:
    """Run it; the exit code is returned."""
    (output,) = sys.argv[1:]
    if _INSIDE not in os.environ:
        os.execvpe(
            "unshare",
            (
                *("unshare", "--net", "--mount", "--pid", "--fork"),
                *("--kill-child", "--mount-proc"),
                *(sys.executable, "-m", __spec__.name, output),
            ),
            {**os.environ, _INSIDE: "1"},
        )
    broker.lay_network()
    with tempfile.TemporaryDirectory() as directory:
        found = run(pathlib.Path(directory))
    pathlib.Path(output).write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
