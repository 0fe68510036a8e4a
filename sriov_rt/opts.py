# SPDX-License-Identifier: Apache-2.0

"""The options of sriov-rt, for oslo-config-generator."""

from collections.abc import Sequence

from keystoneauth1 import loading
from oslo_config import cfg

from sriov_rt import config
from sriov_rt.agent import metrics
from sriov_rt.agent import options
from sriov_rt.devices import options as device_options
from sriov_rt.kubernetes import options as kubernetes_options
from sriov_rt.labels import options as label_options
from sriov_rt.magnum import options as magnum_options
from sriov_rt.neutron import options as neutron_options
from sriov_rt.nic import options as nic_options
from sriov_rt.nova import options as compute_options
from sriov_rt.onload import options as onload_options
from sriov_rt.placement import options as placement_options
from sriov_rt.scheduler import options as scheduler_options
from sriov_rt.vif import options as vif_options
from sriov_rt.vif import privsep

Listing = list[tuple[str | None, Sequence[cfg.Opt]]]


def list_opts() -> Listing:
    """Return the options of ``sriov-rt-agent``, by group."""
    return [
        (None, options.HOST_OPTS),
        (options.GROUP, options.AGENT_OPTS),
        (metrics.GROUP, metrics.METRICS_OPTS),
        (label_options.GROUP, label_options.LABEL_OPTS),
        (kubernetes_options.GROUP, kubernetes_options.KUBERNETES_OPTS),
        (onload_options.GROUP, onload_options.ONLOAD_OPTS),
        (placement_options.GROUP, _placement_opts()),
        ("sriov_rt", config.TRANSPORT_OPTS),
        (nic_options.GROUP, nic_options.NIC_OPTS),
        (device_options.GROUP, device_options.DEVICE_OPTS),
        (vif_options.GROUP, vif_options.VIF_OPTS),
    ]


def _placement_opts() -> Sequence[cfg.Opt]:
    # With those of the common way to authenticate, which keystoneauth
    # registers when auth_type selects it.
    own = placement_options.opts()
    named = {opt.dest for opt in own}
    password = loading.get_auth_plugin_conf_options("password")
    return [*own, *(opt for opt in password if opt.dest not in named)]


def list_nova_opts() -> Listing:
    """Return our options for Nova's services in nova.conf, by group."""
    return [
        (
            scheduler_options.GROUP,
            [
                *config.TRANSPORT_OPTS,
                *scheduler_options.SCHEDULER_OPTS,
                *compute_options.COMPUTE_OPTS,
            ],
        ),
        (onload_options.GROUP, scheduler_options.SHARED_OPTS),
        (privsep.GROUP, privsep.OPTS),
    ]


def list_neutron_opts() -> Listing:
    """Return our options for neutron-server and its agents, by group."""
    return [
        (neutron_options.ML2_GROUP, neutron_options.ML2_OPTS),
        (neutron_options.AGENT_GROUP, neutron_options.AGENT_OPTS),
        (neutron_options.EXTENSION_GROUP, neutron_options.EXTENSION_OPTS),
    ]


def list_magnum_opts() -> Listing:
    """Return our options for magnum-conductor in magnum.conf, by group."""
    return [(magnum_options.GROUP, magnum_options.MAGNUM_OPTS)]
