# SPDX-License-Identifier: Apache-2.0

"""Admission of nodegroups, judged by rendering, traits and hosts."""

from collections.abc import Iterable
from collections.abc import Mapping

from magnum.common import context as magnum_context
from magnum.common import keystone
from magnum_capi_helm import conf
from oslo_log import log as logging

from sriov_rt import request
from sriov_rt.magnum import cloud
from sriov_rt.magnum import endpoints
from sriov_rt.magnum import errors
from sriov_rt.magnum import hosts
from sriov_rt.magnum import nodegroup
from sriov_rt.magnum import objects
from sriov_rt.magnum import operation
from sriov_rt.magnum import options
from sriov_rt.magnum.objects import Object

LOG = logging.getLogger(__name__)
CONF = conf.CONF


def judge(
    under_way: operation.Operation,
    groups: Iterable[Object],
    *,
    growth_alone: bool = False,
) -> Mapping[str, str]:
    """Return warnings by nodegroup.

    :param growth_alone: skip nodegroups that do not grow.
    :raises MagnumError: if one of them is refused.
    """
    refused, warnings = [], {}
    for each in map(objects.group, groups):
        grows = under_way.grows(each)
        if growth_alone and not grows:
            continue
        try:
            rendered = under_way.render(each)
            if grows:
                _check_hosts(each, rendered)
        except errors.NodegroupRefused as error:
            if error.is_warning:
                LOG.warning("%s", error)
                warnings[each.uuid] = errors.sentence(str(error))
            else:
                refused.append(error)
    if refused:
        raise errors.several(refused)
    return warnings


def _check_hosts(group: operation.Group, rendered: nodegroup.Rendered) -> None:
    problem = _why_no_traits(rendered) or _why_no_host(rendered)
    if problem is not None:
        warn = CONF[options.GROUP].unfit_flavor == options.WARN
        raise errors.NodegroupRefused(
            group.shape.name, [problem], is_warning=warn
        )


def _why_no_traits(rendered: nodegroup.Rendered) -> str | None:
    """Return a clause if no host has the traits."""
    if not rendered.traits:
        return None
    admin = keystone.KeystoneClientV3(magnum_context.make_admin_context())
    if cloud.has_host(
        endpoints.adapter(admin.session, "placement"), rendered.traits
    ):
        return None
    return (
        f"no host has the traits that flavor {rendered.flavor.name!r} implies "
        f"({', '.join(sorted(rendered.traits))}); 'sriov-rt explain --flavor' "
        "says why"
    )


def _why_no_host(rendered: nodegroup.Rendered) -> str | None:
    """Return a clause if no host's facts allow a server."""
    flavor = rendered.flavor
    if CONF[options.GROUP].host_check != options.FACTS or not request.asks(
        flavor.extra_specs or {}
    ):
        return None
    found = hosts.Hosts(hosts.of_this_process()).why_none(
        rendered.request,
        flavor.vcpus,
        flavor.ram_mib,
        hosts.max_age_s(CONF),
    )
    return found and f"flavor {flavor.name!r}: {found}"
