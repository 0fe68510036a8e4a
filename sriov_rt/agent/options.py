# SPDX-License-Identifier: Apache-2.0

"""The options of ``sriov-rt-agent``."""

import socket

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.agent import metrics
from sriov_rt.codec import Unknown
from sriov_rt.host import compute
from sriov_rt.host import kubelet
from sriov_rt.host.root import Root
from sriov_rt.labels import options as label_options
from sriov_rt.placement import options as placement_options

GROUP = "agent"

#: Meaning of ``[agent] realtime`` for the host; None: as configured in Nova.
INTENDED = {"auto": None, "yes": True, "no": False}

HOST_OPTS = [
    cfg.StrOpt(
        "host",
        sample_default="<[DEFAULT] host of nova.conf, or the hostname>",
        help="""
The name that Nova calls this host by.

Leave it unset: it is the ``[DEFAULT] host`` of ``[agent] nova_config_files``,
and where they have none the hostname, as in nova-compute. An agent does not
start with a name that contradicts them; set it only where they are not on
this host, such as in a container. The scheduler finds the facts by this name.
""",
    ),
]

AGENT_OPTS = [
    cfg.StrOpt(
        "node",
        help="""
The name of this host's hypervisor, as ``openstack hypervisor list`` shows it.

libvirt gives it (``virsh hostname``, most often the fully qualified name),
and Nova names the host's resource provider in Placement by it. Where it is
not set, the name of ``[DEFAULT] host`` is used; set it if the two differ, or
Placement never gets this host's traits.
""",
    ),
    cfg.StrOpt(
        "realtime",
        default="auto",
        choices=tuple(INTENDED),
        help="""
Whether this host is meant to serve realtime guests.

``auto`` is yes if nova-compute has a ``[compute] cpu_dedicated_set`` on it.
Set ``no`` where those pCPUs are for pinned guests without realtime, and
``yes`` where guests are placed without Nova. It changes no decision: it is a
fact of the host, and a host that is not meant to raises no alert that it is
not ready.
""",
    ),
    cfg.FloatOpt(
        "observe_interval",
        default=10.0,
        min=0.5,
        max=3600.0,
        help="""
Seconds from one observation of the host to the next.

Devices that come and go are seen at once, by the kernel's events; what the
kernel sends no event for (a sysctl, the affinity of an interrupt) is seen
after this time at the latest. One observation reads some hundred small files
of /proc and /sys: raise it on hosts with very many VFs.
""",
    ),
    cfg.FloatOpt(
        "heartbeat_interval",
        default=10.0,
        min=0.5,
        max=3600.0,
        help="""
Seconds from one sign of life to the next while the facts stay the same.

Each confirms an observation just made, so one never comes more often than
``observe_interval``. The schedulers' ``[sriov_rt] facts_max_age`` has to be a
few times as long; raise both in clouds of thousands of hosts to spare the
message queue.
""",
    ),
    cfg.FloatOpt(
        "report_spread",
        default=2.0,
        min=0.0,
        max=300.0,
        help="""
Seconds over which the agents spread their answers to "report now".

A scheduler that starts asks all agents at once; each waits for a random part
of this time and answers all requests until then with one message. Raise it
in clouds of thousands of hosts, where a host's facts are some 10 kB, and keep
it below the schedulers' ``[sriov_rt] warmup_timeout``.
""",
    ),
    cfg.Opt(
        "root",
        type=config.Checked(config.absolute_path),
        default="/",
        help="""
The directory below which /proc, /sys, /dev and /etc of the host are read.

Change it where the agent runs in a container that has the host's file system
mounted elsewhere, such as /host. Every fact is read below it.
""",
    ),
    cfg.ListOpt(
        "nova_config_files",
        item_type=config.Checked(config.absolute_path),
        default=[f"/{each}" for each in compute.FILES],
        help="""
The configuration files of this host's nova-compute, in its order.

``[compute] cpu_dedicated_set`` and ``cpu_shared_set`` are read from them,
below ``root``, at every observation; files that do not exist are passed over,
and of a name that ends with ``.d`` every ``*.conf`` in that directory is
read. Name here what nova-compute gets by ``--config-file``, and let the
agent's user read it: a host whose dedicated pCPUs are unknown is not
realtime.
""",
    ),
    cfg.BoolOpt(
        "publish_traits",
        default=True,
        help="""
Whether to set this host's traits in Placement, and to withdraw them.

They let a flavor ask for ``trait:CUSTOM_SRIOV_RT_REALTIME=required``, which
needs no filter in the scheduler. It takes the credentials of a user with the
admin or service role in ``[placement]``, such as nova's own; turn it off
where compute hosts must not hold them. The agent that is stopped for that
withdraws the traits that it has set.
""",
    ),
    cfg.FloatOpt(
        "traits_interval",
        default=300.0,
        min=10.0,
        max=86400.0,
        help="""
Seconds after which the traits in Placement are looked at again.

Changes of the host are written at once; this finds what others changed, such
as a provider that was deleted and created again. The default is Nova's own
(``[compute] resource_provider_association_refresh``).
""",
    ),
    cfg.FloatOpt(
        "audit_interval",
        default=60.0,
        min=1.0,
        max=86400.0,
        help="""
Seconds from one audit of the running guests to the next.

An audit compares the threads, the memory and the devices of each guest with
its domain. It changes nothing: what is not as promised is logged, sent as the
notification ``sriov_rt.guest.drift`` and shown by ``sriov-rt agent show``. A
hundred guests take less than a second; raise it on hosts with thousands of
threads.
""",
    ),
    cfg.Opt(
        "kubelet_directory",
        type=config.Checked(config.absolute_path),
        default=kubelet.DIRECTORY,
        help="""
The directory of the kubelet of this host (its ``--root-dir``).

The audit reads in its file cpu_manager_state which CPUs the kubelet gave to
pods alone, and compares them with the isolated CPUs and with those of guests.
Change it for distributions that have it elsewhere, such as
/var/lib/k0s/kubelet. On a host without a kubelet it has no effect.
""",
    ),
    cfg.FloatOpt(
        "stop_timeout",
        default=10.0,
        min=0.0,
        max=300.0,
        help="""
Seconds that a clean stop may take.

The agent then withdraws its traits and reports to the schedulers that it is
gone, and ends after this time whether Placement and the message queue answered
or not. Keep it below TimeoutStopSec of the systemd unit.
""",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register every option that the agent itself reads."""
    conf.register_opts(HOST_OPTS)
    conf.register_opts(AGENT_OPTS, group=GROUP)
    conf.register_opts(metrics.METRICS_OPTS, group=metrics.GROUP)
    conf.register_opts(label_options.LABEL_OPTS, group=label_options.GROUP)
    conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
    conf.register_opts(placement_options.opts(), group=placement_options.GROUP)


def check(conf: cfg.ConfigOpts) -> None:
    """Read every option of ours before the agent needs it.

    :raises OptionRejected: naming the first option with a bad value.
    """
    config.check(
        conf,
        (
            (config.DEFAULT, HOST_OPTS),
            (GROUP, AGENT_OPTS),
            (metrics.GROUP, metrics.METRICS_OPTS),
            (label_options.GROUP, label_options.LABEL_OPTS),
            ("sriov_rt", config.TRANSPORT_OPTS),
        ),
        "sriov-rt-agent",
    )


def host_name(conf: cfg.ConfigOpts, service: str) -> str:
    """Return Nova's name of the host.

    :raises OptionRejected: for a name that contradicts nova-compute's files.
    """
    root = Root(conf.agent.root)
    settings = compute.read(root, conf.agent.nova_config_files)
    name = compute.host_name(root, settings)
    configured: str | None = conf.host
    if configured is None:
        return socket.gethostname() if isinstance(name, Unknown) else name
    if settings is None or isinstance(settings, Unknown):
        return configured
    if isinstance(name, Unknown) or name == configured:
        return configured
    whence = (
        "[DEFAULT] host there"
        if ("DEFAULT", "host") in settings
        else "the hostname, since [DEFAULT] host is not set there"
    )
    raise config.OptionRejected(
        config.DEFAULT,
        "host",
        f"nova-compute of this host is {name} by its configuration files "
        f"({whence}); remove this line, or name the files in [agent] "
        "nova_config_files",
        service,
        configured,
    )


def node_name(conf: cfg.ConfigOpts, service: str) -> str:
    """Return the name of the host's resource provider.

    :raises OptionRejected: see :func:`host_name`.
    """
    name: str = conf.agent.node or host_name(conf, service)
    return name
