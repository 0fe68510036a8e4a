# SPDX-License-Identifier: Apache-2.0

"""The agent's process: configuration, signals and exit code."""

import logging
import queue
import signal
import sys
from collections.abc import Sequence

from neutron.common import config as neutron_config
from neutron.conf import service
from neutron.conf.agent import common as agent_config
from neutron.conf.agent.database import agents_db
from oslo_config import cfg
from oslo_service import systemd

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt.neutron import options
from sriov_rt.neutron.ports import Ports
from sriov_rt.neutron.server import Callbacks
from sriov_rt.neutron.server import Listening
from sriov_rt.neutron.server import Server
from sriov_rt.neutron.service import Agent
from sriov_rt.neutron.this_host import ThisHost
from sriov_rt.neutron.this_host import settings
from sriov_rt.service import guru_meditation
from sriov_rt.service import signals
from sriov_rt.service.uevents import Uevents

LOG = logging.getLogger(__name__)

#: Exit code for a configuration that the agent cannot work with.
EXIT_CONFIGURATION = 2


def configure(arguments: Sequence[str]) -> cfg.ConfigOpts:
    """Return neutron's configuration, after setting up logging from it.

    :param arguments: the command line without the program's name.
    :raises oslo_config.cfg.Error: if it cannot be read.
    """
    conf = cfg.CONF
    neutron_config.register_common_config_options()
    agent_config.register_agent_state_opts_helper(conf)
    agents_db.register_db_agents_opts(conf)
    # neutron_lib/rpc.py reads these, but only after the first timeout.
    service.register_service_opts(service.RPC_EXTRA_OPTS, conf)
    options.register_agent(conf)
    guru_meditation.register_options(conf)
    config.check_files(config.named_files(arguments))
    neutron_config.init(list(arguments))
    neutron_config.setup_logging()
    options.check_agent(conf)
    return conf


#: Name of the program, used in the file names of its reports.
NAME = "sriov-rt-neutron-agent"


def serve(conf: cfg.ConfigOpts) -> int:
    """Run the agent until it is stopped; return the exit code."""
    received: queue.SimpleQueue[int] = queue.SimpleQueue()
    guru_meditation.handle_signals(conf, NAME, received.put)
    section = conf[options.AGENT_GROUP]
    host = ThisHost(settings(section.config_file), conf.host)
    host.recover()
    agent = Agent(
        conf.host,
        host,
        Server(conf.host),
        Ports(section.retry_interval),
        polling_s=section.polling_interval,
        report_s=conf.AGENT.report_interval,
        crashed=lambda: received.put(signals.CRASHED),
    )
    signals.handle(received)
    parts = (
        agent,
        Listening(
            Callbacks(conf.host, agent.touched),
            lambda: received.put(signals.CRASHED),
        ),
        Uevents(agent.changed),
    )
    for part in parts:
        part.start()
    systemd.notify_once()
    code = signals.serve(
        received,
        {
            signal.SIGHUP: lambda: _resend(conf, agent),
            signal.SIGUSR2: lambda: guru_meditation.write(conf, NAME),
        },
    )
    for part in reversed(parts):
        part.stop()
    return code


def _resend(conf: cfg.ConfigOpts, agent: Agent) -> None:
    LOG.info("host=%s resending the status of all ports: SIGHUP", conf.host)
    agent.resync()


def main(arguments: Sequence[str]) -> int:
    """Run the agent and return its exit code.

    :param arguments: the command line without the program's name.
    """
    try:
        return serve(configure(arguments))
    except (cfg.Error, exceptions.SriovRtError) as error:
        print(f"sriov-rt-neutron-agent: error: {error}", file=sys.stderr)
        return EXIT_CONFIGURATION
