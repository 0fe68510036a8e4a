# SPDX-License-Identifier: Apache-2.0

"""Clusters and nodegroups in Magnum's database."""

from collections.abc import Iterable
from typing import Any

from magnum_capi_helm import driver
from magnum_capi_helm import driver_utils

from sriov_rt.magnum import operation
from sriov_rt.magnum.nodegroup import Nodegroup

#: Objects of Magnum.
Object = Any


def workers(groups: Iterable[Object]) -> list[Object]:
    """Return the nodegroups without the control plane."""
    return [
        each
        for each in groups
        if each.role != driver.NODE_GROUP_ROLE_CONTROLLER
    ]


def group(found: Object) -> operation.Group:
    """Return a nodegroup as read from Magnum's database.

    Releases before 2026.2 have neither node_labels nor node_taints.
    """
    return operation.Group(
        uuid=found.uuid,
        flavor=found.flavor_id,
        count=found.node_count,
        failed=(found.status or "").endswith("_FAILED"),
        deleted=(found.status or "").startswith("DELETE_"),
        shape=Nodegroup(
            name=found.name,
            chart_name=chart_name(found),
            labels=found.labels or {},
            node_labels=getattr(found, "node_labels", None) or {},
            node_taints=getattr(found, "node_taints", None) or (),
            default=bool(found.is_default),
        ),
    )


def chart_name(group: Object) -> str:
    """Return the name of a nodegroup in the chart."""
    return driver_utils.sanitized_name(group.name) or ""


def owner(cluster: Object, group: Object) -> Object:
    """Return the oldest nodegroup with the chart name of a nodegroup.

    All machines of that chart name belong to it.
    """
    same = (
        each
        for each in workers(cluster.nodegroups)
        if chart_name(each) == chart_name(group)
    )
    return next(same, group)
