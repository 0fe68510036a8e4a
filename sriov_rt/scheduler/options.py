# SPDX-License-Identifier: Apache-2.0

"""The options of nova-scheduler, in ``[sriov_rt]`` of its nova.conf."""

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.onload import options as onload_options

GROUP = "sriov_rt"

SCHEDULER_OPTS = [
    cfg.FloatOpt(
        "facts_max_age",
        default=60.0,
        min=1.0,
        max=86400.0,
        help="""
Seconds from which a host's facts are stale.

A host that was not heard of for longer fails every flavor that has an
``sriov_rt:`` extra spec: what it was is not what it is. Keep it a few times
the agents' ``[agent] heartbeat_interval``, and raise both in clouds of
thousands of hosts.
""",
    ),
    cfg.FloatOpt(
        "warmup_timeout",
        default=10.0,
        min=0.0,
        max=50.0,
        help="""
Seconds that requests wait for the first reports in a fresh worker.

A nova-scheduler worker that has just started knows no host: it asks all
agents to report, and flavors with an ``sriov_rt:`` extra spec wait until the
hosts in question have answered, or this time is over. Keep it above the
agents' ``[agent] report_spread`` and below ``[DEFAULT]
rpc_response_timeout``; flavors without such an extra spec never wait.
""",
    ),
    cfg.IntOpt(
        "facts_max_hosts",
        default=20000,
        min=1,
        max=1000000,
        help="""
The most hosts that facts are kept of, in each worker.

It bounds the memory that a flood of forged host names can take: the facts
of a host with 64 CPUs, 256 VFs and 80 labels take about 11 kB, and those of
all hosts together at most 64 kB for each that this option allows. Hosts
beyond it are refused with a line in the log, and serve no ``sriov_rt:``
flavor: raise it in clouds that have more compute hosts.
""",
    ),
    cfg.FloatOpt(
        "realtime_host_weight_multiplier",
        default=10.0,
        help="""
How strongly instances that are not realtime are kept off realtime hosts.

A realtime host weighs less by this number for them, so that it stays free
for realtime instances; the default outdoes Nova's own weighers at their
defaults but BuildFailureWeigher, which takes more than 1000000. At 0 nothing
is kept off; the metadata ``realtime_host_weight_multiplier`` of a host
aggregate overrides it for the aggregate's hosts.
""",
    ),
]


#: Options with the same values for nova-scheduler and the compute hosts.
SHARED_OPTS = [
    each
    for each in onload_options.ONLOAD_OPTS
    if each.dest == "second_endpoint"
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register every option that the scheduler's side reads."""
    conf.register_opts(SCHEDULER_OPTS, group=GROUP)
    conf.register_opts(config.TRANSPORT_OPTS, group=GROUP)
    conf.register_opts(SHARED_OPTS, group=onload_options.GROUP)


def check(conf: cfg.ConfigOpts) -> None:
    """Read every option, so that a bad value is found before it is needed.

    :raises OptionRejected: naming the first option with a bad value.
    """
    register(conf)
    config.check(
        conf,
        (
            (GROUP, [*SCHEDULER_OPTS, *config.TRANSPORT_OPTS]),
            (onload_options.GROUP, SHARED_OPTS),
        ),
        "nova-scheduler",
    )


def keeps_apart(conf: cfg.ConfigOpts) -> bool:
    """Return whether accelerated endpoints of one network are kept apart."""
    group = conf[onload_options.GROUP]
    return bool(group.second_endpoint == onload_options.REFUSE)
