# SPDX-License-Identifier: Apache-2.0

"""The options of nova-compute, in ``[sriov_rt]`` of its nova.conf."""

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.onload import settings
from sriov_rt.onload.errors import ConfigurationUnreadable
from sriov_rt.vif import privsep

GROUP = "sriov_rt"

REFUSE, WARN = "refuse", "warn"

COMPUTE_OPTS = [
    cfg.StrOpt(
        "unfit_host",
        default=REFUSE,
        choices=[
            (REFUSE, "Refuse the instance; Nova tries another host."),
            (WARN, "Log why the host does not satisfy it, and start it."),
        ],
        help="""
What happens to an instance whose flavor this host does not satisfy.

The scheduler's filter keeps such instances away, but a forced host
(``--availability-zone ZONE:HOST``) passes no filter. The compute host judges
each instance by its own facts when it is created there, unshelved, evacuated,
resized or migrated to it. Set it to ``warn`` while a host is being set up;
what a realtime guest needs in its domain is refused all the same.
""",
    ),
]


#: The service that the configuration belongs to, for messages.
SERVICE = "nova-compute"


def register(conf: cfg.ConfigOpts) -> None:
    """Register every option that the compute driver reads."""
    conf.register_opts(COMPUTE_OPTS, group=GROUP)
    conf.register_opts(privsep.OPTS, group=privsep.GROUP)


def check(conf: cfg.ConfigOpts) -> None:
    """Read every option, so that a bad value is found before it is needed.

    :raises OptionRejected: naming the first option with a bad value.
    """
    register(conf)
    config.check(
        conf,
        ((GROUP, COMPUTE_OPTS), (privsep.GROUP, privsep.OPTS)),
        SERVICE,
    )


def check_onload() -> None:
    """Read ``[onload]`` of this host's sriov-rt.conf, if nova may read it.

    :raises OptionRejected: naming the first option with a bad value.
    """
    try:
        conf = settings.configuration()
    except ConfigurationUnreadable:
        return  # an accelerated container says so
    settings.check(conf, SERVICE)
