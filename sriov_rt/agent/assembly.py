# SPDX-License-Identifier: Apache-2.0

"""Assembly of an agent from its configuration."""

import functools
import logging
from collections.abc import Callable

from keystoneauth1 import exceptions as ks_exceptions
from oslo_config import cfg

from sriov_rt import exceptions
from sriov_rt.agent import audit
from sriov_rt.agent import options
from sriov_rt.agent import withdrawal
from sriov_rt.agent.audit import Audit
from sriov_rt.agent.audit import FindChanged
from sriov_rt.agent.audit import no_changes
from sriov_rt.agent.listener import Endpoint
from sriov_rt.agent.listener import Listener
from sriov_rt.agent.metrics import CountVfs
from sriov_rt.agent.metrics import Metrics
from sriov_rt.agent.publisher import Bus
from sriov_rt.agent.publisher import Publisher
from sriov_rt.agent.service import Agent
from sriov_rt.agent.service import Background
from sriov_rt.agent.service import Parts
from sriov_rt.agent.service import Timing
from sriov_rt.agent.withdrawal import Notification
from sriov_rt.agent.withdrawal import Notifying
from sriov_rt.agent.withdrawal import Withdrawals
from sriov_rt.facts import HostFacts
from sriov_rt.host.observer import Observer
from sriov_rt.host.observer import load_sources
from sriov_rt.host.occupancy import Occupancy
from sriov_rt.host.root import Root
from sriov_rt.labels import service as label_service
from sriov_rt.placement import resource_provider
from sriov_rt.placement.resource_provider import Provider
from sriov_rt.service import messaging
from sriov_rt.service.backoff import Backoff
from sriov_rt.service.reconciler import Reconciler
from sriov_rt.service.uevents import Uevents

LOG = logging.getLogger(__name__)

#: The first delay after a failure, seconds.
FIRST_DELAY_S = 1.0

#: The longest delay before the message queue is tried again, seconds: well
#: below the age from which schedulers take facts for stale.
BUS_LIMIT_S = 10.0

#: The longest delay before Keystone and Placement are tried again, seconds:
#: half the interval of Nova's own compute service (it updates resources once
#: a minute).
PLACEMENT_LIMIT_S = 30.0


class PlacementMisconfigured(exceptions.SriovRtError):
    """``[placement]`` configures an impossible authentication."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"[placement] is not complete ({why}); copy the section from "
            "nova.conf, or set [agent] publish_traits = false"
        )


def assemble(
    conf: cfg.ConfigOpts,
    crashed: Callable[[], None],
    count_vfs: CountVfs = tuple,
    find_changed: FindChanged = no_changes,
) -> Agent:
    """Return the agent that a configuration describes, not started.

    :param conf: with the options of :mod:`sriov_rt.agent.options`.
    :param crashed: called if a thread meets an error it should not.
    :param count_vfs: as of :class:`Metrics`.
    :param find_changed: as of :func:`audit.observe`.
    :raises PlacementMisconfigured: see there.
    :raises LabelSourceMissing: see there.
    :raises SriovRtError: if metrics are enabled and their library is not
        installed.
    :raises oslo_messaging.MessagingException: for an invalid transport URL.
    """
    publisher = _publisher(conf)
    labels = label_service.make(
        conf, lambda: agent.relabel(conf.labels.debounce), crashed
    )
    endpoint = Endpoint(conf.host, lambda: agent.report_requested())
    listener = Listener(conf, conf.host, endpoint)
    notifying = _notifying(conf, crashed)
    notify = _to_nobody if notifying is None else notifying.put
    auditing = Audit(
        functools.partial(
            audit.observe,
            Root(conf.agent.root),
            kubelet_directory=conf.agent.kubelet_directory,
            find_changed=find_changed,
        ),
        conf.agent.audit_interval,
        notify,
        lambda: agent.relabel(0.0),
        crashed,
    )
    agent = Agent(
        Parts(
            observe=_observing(conf),
            labels=labels,
            publisher=publisher,
            publishing=Reconciler(
                "publisher",
                publisher.publish,
                backoff=Backoff(FIRST_DELAY_S, BUS_LIMIT_S),
                crashed=crashed,
            ),
            tending=_tending(conf, crashed),
            listening=Reconciler(
                "listener",
                listener.set_listening,
                backoff=Backoff(FIRST_DELAY_S, BUS_LIMIT_S),
                crashed=crashed,
            ),
            withdrawals=Withdrawals(
                functools.partial(withdrawal.affected, Root(conf.agent.root)),
                notify,
            ),
            audit=auditing,
        ),
        Timing(
            observe_interval=conf.agent.observe_interval,
            report_spread=conf.agent.report_spread,
            stop_timeout=conf.agent.stop_timeout,
        ),
        crashed,
    )
    beside: list[Background] = [] if notifying is None else [notifying]
    if conf.metrics.enabled:
        beside.append(
            Metrics(
                conf.metrics.address,
                conf.metrics.port,
                agent.reported,
                Root(conf.agent.root),
                count_vfs,
                agent.times,
            )
        )
    agent.run_beside(Uevents(agent.changed), labels, auditing, *beside)
    return agent


def _node(conf: cfg.ConfigOpts) -> str:
    """Return the name of the host's resource provider."""
    name: str = conf.agent.node or conf.host
    return name


def _observing(conf: cfg.ConfigOpts) -> Callable[[], HostFacts]:
    """Return the function that observes the host.

    It writes a withdrawal of the certificate to disk before it is reported.
    """
    root = Root(conf.agent.root)
    observer = Observer(
        root,
        conf.host,
        _node(conf),
        load_sources(),
        nova_files=conf.agent.nova_config_files,
        keep=withdrawal.Keeper().keep,
        occupancy=Occupancy(root, conf.agent.kubelet_directory),
        intended=options.INTENDED[conf.agent.realtime],
    )
    return observer.observe


def _publisher(conf: cfg.ConfigOpts) -> Publisher:
    return Publisher(
        conf.host,
        _node(conf),
        Bus(conf),
        heartbeat_s=conf.agent.heartbeat_interval,
        slack_s=conf.agent.observe_interval / 2,
    )


def _tending(
    conf: cfg.ConfigOpts, crashed: Callable[[], None]
) -> Reconciler[frozenset[str]] | None:
    if not conf.agent.publish_traits:
        return None
    try:
        client = resource_provider.adapter(conf)
    except (ks_exceptions.ClientException, TypeError) as error:
        # keystoneauth raises TypeError for interfaces that don't exist.
        raise PlacementMisconfigured(str(error)) from error
    if client is None:
        LOG.warning(
            "no traits are set in Placement, since [placement] auth_type is "
            "not; copy the section from nova.conf, or set [agent] "
            "publish_traits = false if that is meant"
        )
        return None
    provider = Provider(
        resource_provider.Placement(client), conf.host, _node(conf)
    )
    return Reconciler(
        "traits",
        provider.set_traits,
        backoff=Backoff(FIRST_DELAY_S, PLACEMENT_LIMIT_S),
        crashed=crashed,
        again_s=conf.agent.traits_interval,
    )


def _notifying(
    conf: cfg.ConfigOpts, crashed: Callable[[], None]
) -> Notifying | None:
    notifier = messaging.notifier(conf, f"sriov-rt-agent:{conf.host}")
    return None if notifier is None else Notifying(notifier, crashed)


def _to_nobody(_: Notification) -> None:
    """Send no notification; the event is only logged."""
