# SPDX-License-Identifier: Apache-2.0

"""The scheduler's filter, for ``[filter_scheduler] available_filters``."""

import functools
import logging
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import nova.conf
from nova import context
from nova import exception
from nova.objects import host_mapping
from nova.scheduler import filters
from nova.scheduler import utils

from sriov_rt import request as requests
from sriov_rt.nova import request_spec
from sriov_rt.reason import reason
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from sriov_rt.scheduler.unknown_hosts import UnknownHosts
from sriov_rt.scheduler.verdicts import Verdicts
from sriov_rt.scheduler.verdicts import lines
from sriov_rt.scheduler.verdicts import summary
from sriov_rt.service import messaging

LOG = logging.getLogger(__name__)

_INVALID = "request_invalid"

#: Nova's filters that should follow ours: they fit NUMA cells and PCI devices.
COSTLY = ("NUMATopologyFilter", "PciPassthroughFilter")


def log(
    verdicts: Verdicts,
    request: requests.Request,
    hosts: list[Any],
    passing: list[Any],
    spec: Any,
) -> None:
    """Log why hosts fail: each at DEBUG, a summary at INFO if all do.

    :param hosts: HostStates that were judged.
    :param passing: those of them that passed.
    """
    nobody = bool(hosts) and not passing
    debug = LOG.isEnabledFor(logging.DEBUG)
    if len(passing) == len(hosts) or not (nobody or debug):
        return
    found = verdicts.refusals(request, hosts, spec.instance_uuid)
    if debug:
        for line in lines(found):
            LOG.debug("Instance %s: %s", spec.instance_uuid, line)
    if nobody:
        LOG.info(
            "No host satisfies flavor %s of instance %s: %s. "
            "'sriov-rt explain --flavor %s' says what to do on each.",
            spec.flavor.name,
            spec.instance_uuid,
            summary(found),
            spec.flavor.name,
        )


def end(
    own: worker.Worker, request: requests.Request, hosts: list[Any], spec: Any
) -> None:
    """End a request that no host satisfies with a fault that says why.

    Nova's own fault says only that there is no valid host. In a request for
    several servers the earlier ones may have claimed hosts, which Nova
    releases only if a filter returns no host: then the log alone says why.

    :param hosts: HostStates, none of which passed.
    :raises nova.exception.NoValidHost: with the Reasons' codes, and where
        to read more.
    """
    found = own.verdicts.refusals(request, hosts, spec.instance_uuid)
    # The closest host comes first, since Nova truncates a fault. Hosts are
    # not named, since tenants read it.
    nearest = sorted(found, key=lambda each: len(each.reasons))
    codes = dict.fromkeys(r.code for each in nearest for r in each.reasons)
    if not is_single(spec):
        return
    raise no_valid_host(", ".join(codes), spec)


def is_single(spec: Any) -> bool:
    """Return whether a RequestSpec is known to be for one server only."""
    return bool(
        spec.obj_attr_is_set("num_instances") and spec.num_instances == 1
    )


def no_valid_host(why: str, spec: Any) -> exception.NoValidHost:
    """Return NoValidHost with our reason.

    :param why: a clause; it comes last, since Nova truncates a fault to 255
        characters.
    """
    return exception.NoValidHost(
        reason=f"An administrator sees what to do by 'sriov-rt explain "
        f"--flavor {spec.flavor.name}': {why}"
    )


def all_filters() -> list[Any]:
    """Return the classes of ``sriov_rt.scheduler_filters`` for Nova.

    :raises ImportError: for an entry point that can't be loaded. Without its
        filter, nova-scheduler would place realtime instances anywhere.
    """
    return request_spec.load("sriov_rt.scheduler_filters")


class RealtimeSriovFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Pass the hosts that satisfy the flavor's ``sriov_rt:`` extra specs.

    A flavor without any passes every host and waits for nothing.
    """

    # A rebuild keeps the instance on its host with its flavor: refusing it
    # would not make the host any better.
    RUN_ON_REBUILD = False

    # Facts may change between two instances of a request.
    run_filter_once_per_request = False

    def __init__(self) -> None:
        """Make the filter, as nova-scheduler does when it starts.

        :raises OptionRejected: for an option with a bad value.
        """
        options.check(nova.conf.CONF)
        _check_order(nova.conf.CONF.filter_scheduler.enabled_filters)
        if problem := messaging.unusable(nova.conf.CONF):
            LOG.error(
                "No sriov_rt flavor can be placed: [sriov_rt] transport_url "
                "in the configuration of nova-scheduler can't be used, %s; "
                "correct it and start nova-scheduler again. Other flavors "
                "are placed as usual",
                problem,
            )

    @functools.cached_property
    def _unknown_hosts(self) -> UnknownHosts:
        table = worker.of_this_process().table
        return UnknownHosts(lambda: table.entries.keys(), _mapped)

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> Iterable[Any]:
        """Return the HostStates that pass.

        :raises nova.exception.NoValidHost: if none passes; see :func:`end`.
        """
        if not requests.asks(request_spec.extra_specs(spec_obj)):
            return filter_obj_list
        if utils.request_is_rebuild(spec_obj):
            return filter_obj_list
        own = worker.of_this_process()
        hosts = list(filter_obj_list)
        try:
            request = request_spec.request(spec_obj, own.verdicts)
        except requests.RequestError as error:
            _refuse_all(hosts, spec_obj, error)
            return []
        own.warm_up(lambda: own.verdicts.known(hosts))
        self._unknown_hosts.look()
        passing = own.verdicts.passing(request, hosts, spec_obj.instance_uuid)
        log(own.verdicts, request, hosts, passing, spec_obj)
        if hosts and not passing:
            end(own, request, hosts, spec_obj)
        return passing


def _mapped() -> list[str]:
    """Return the hosts of all cells."""
    found = host_mapping.HostMappingList.get_all(context.get_admin_context())
    return [each.host for each in found]


def _check_order(enabled: Sequence[str]) -> None:
    """Warn if a costly filter of Nova's comes before ours.

    A host that fails there is not judged here, and if none is left the fault
    does not say why. Per host, such a filter costs several times as much as
    ours.

    :param enabled: [filter_scheduler] enabled_filters.
    """
    ours = RealtimeSriovFilter.__name__
    if ours not in enabled:
        return
    before = enabled[: enabled.index(ours)]
    if late := [each for each in COSTLY if each in before]:
        LOG.warning(
            "%s comes after %s in [filter_scheduler] enabled_filters: where "
            "no host is left, a server's fault does not say why; put it "
            "before",
            ours,
            " and ".join(late),
        )


def _refuse_all(
    hosts: list[Any], spec: Any, error: requests.RequestError
) -> None:
    """End a request whose extra specs are invalid.

    It ends for all of its servers: none of them has claimed a host yet.

    :raises nova.exception.NoValidHost: with the sentence.
    """
    why = reason(_INVALID, problems=str(error))
    LOG.info(
        "No host satisfies flavor %s of instance %s: %s × %d: %s",
        spec.flavor.name,
        spec.instance_uuid,
        why.code,
        len(hosts),
        why.message,
    )
    if hosts:
        raise exception.NoValidHost(reason=why.message)
