# SPDX-License-Identifier: Apache-2.0

"""The agent's process: its configuration, its signals, its exit code."""

import importlib.metadata
import logging
import queue
import signal
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log
from oslo_service import service
from oslo_service import systemd

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt.agent import options
from sriov_rt.agent.assembly import assemble
from sriov_rt.agent.audit import FindChanged
from sriov_rt.agent.audit import no_changes
from sriov_rt.agent.metrics import CountVfs
from sriov_rt.service import guru_meditation
from sriov_rt.service import signals

LOG = logging.getLogger(__name__)

#: Exit code for a configuration that the agent cannot work with.
EXIT_CONFIGURATION = 2

#: Name of the program, used in its reports' file names.
NAME = "sriov-rt-agent"


#: A function that checks other options of a service.
Check = Callable[[cfg.ConfigOpts, str], object]


def _nothing(conf: cfg.ConfigOpts, service: str) -> None:
    """No further option checks."""


def configure(
    arguments: Sequence[str] | None, check: Check = _nothing
) -> cfg.ConfigOpts:
    """Return the configuration, and set up logging.

    :param arguments: the command line without the program's name.
    :param check: checks the options that facts are read from.
    :raises oslo_config.cfg.Error: if it cannot be read.
    :raises OptionRejected: for an option with a bad value.
    """
    # The global configuration: oslo.messaging registers options of its own
    # (oslo_messaging_tracing) there, whatever conf it is given.
    conf = cfg.CONF
    log.register_options(conf)
    options.register(conf)
    guru_meditation.register_options(conf)
    words = sys.argv[1:] if arguments is None else arguments
    config.check_files(config.named_files(words) or config.default_files())
    conf(
        words,
        project="sriov_rt",
        prog="sriov-rt-agent",
        version=importlib.metadata.version("sriov-rt"),
        default_config_files=cfg.find_config_files(
            project="sriov_rt", prog="sriov-rt"
        ),
    )
    log.setup(conf, "sriov_rt")
    options.check(conf)
    conf.set_override("host", options.host_name(conf, NAME))
    check(conf, NAME)
    return conf


def serve(
    conf: cfg.ConfigOpts,
    count_vfs: CountVfs = tuple,
    find_changed: FindChanged = no_changes,
) -> int:
    """Run the agent until it is stopped; return the exit code.

    :param count_vfs: as of :class:`Metrics`.
    :param find_changed: as of :func:`audit.observe`.
    """
    received: queue.SimpleQueue[int] = queue.SimpleQueue()
    guru_meditation.handle_signals(conf, NAME, received.put)
    agent = assemble(
        conf,
        lambda: received.put(signals.CRASHED),
        count_vfs,
        find_changed,
    )
    # Not a launcher: those put the service into a child process, which they
    # restart on SIGHUP, traits withdrawn and all.
    services = service.Services(restart_method="mutate")
    signals.handle(received)
    services.add(agent)
    systemd.notify_once()
    code = signals.serve(
        received,
        {
            signal.SIGHUP: lambda: _reload(conf, services),
            signal.SIGUSR2: lambda: guru_meditation.write(conf, NAME),
        },
    )
    # This also waits; Services.wait() fails in oslo.service 4.2.
    services.stop()
    return code


def _reload(conf: cfg.ConfigOpts, services: Any) -> None:
    try:
        conf.mutate_config_files()
    except (cfg.Error, UnicodeDecodeError):
        LOG.exception("the configuration was not reloaded; correct it")
    services.restart()


def main(
    arguments: Sequence[str] | None = None,
    check: Check = _nothing,
    count_vfs: CountVfs = tuple,
    find_changed: FindChanged = no_changes,
) -> int:
    """Run the agent and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    :param check: checks what the facts are read from.
    :param count_vfs: as of :func:`serve`; so for find_changed.
    """
    try:
        return serve(configure(arguments, check), count_vfs, find_changed)
    except (
        cfg.Error,
        exceptions.SriovRtError,
        oslo_messaging.MessagingException,
    ) as error:
        print(f"sriov-rt-agent: error: {error}", file=sys.stderr)
        return EXIT_CONFIGURATION
