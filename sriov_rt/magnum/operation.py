# SPDX-License-Identifier: Apache-2.0

"""The nodegroups of a cluster during one operation."""

import dataclasses
import functools
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.magnum import errors
from sriov_rt.magnum import nodegroup
from sriov_rt.magnum.nodegroup import Flavor
from sriov_rt.magnum.nodegroup import Networks
from sriov_rt.magnum.nodegroup import Nodegroup
from sriov_rt.magnum.nodegroup import Rendered
from sriov_rt.magnum.nodegroup import Settings

LOG = logging.getLogger(__name__)

#: The chart's entry of a nodegroup.
Entry = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A nodegroup of a cluster.

    :param flavor: its id or name.
    :param failed: whether the last operation on it failed.
    :param deleted: whether it is being deleted.
    """

    uuid: str
    flavor: str | None
    count: int
    failed: bool
    shape: Nodegroup
    deleted: bool = False


class Operation:
    """The nodegroups of a cluster during one operation.

    A refused nodegroup is built only by an operation on itself. A nodegroup
    that was built keeps its entry even if it could not be built again, because
    the chart deletes nodegroups that are missing from its values. Flavors,
    networks and the release are read once, when they are first needed.

    :param read_flavors: returns the user's flavors, by id and name.
    :param read_networks: returns the user's networks, by UUID and name.
    :param read_built: returns the entries of the release, by their names in
        the chart; None without a release.
    :param named: UUIDs of the nodegroups that this operation concerns.
    """

    def __init__(
        self,
        settings: Settings,
        read_flavors: Callable[[], Mapping[str, Flavor]],
        read_networks: Callable[[], Networks],
        read_built: Callable[[], Mapping[str, Entry] | None],
        named: frozenset[str],
    ) -> None:
        self._settings = settings
        self._read_flavors = read_flavors
        self._read_networks = functools.cache(read_networks)
        self._read_built = read_built
        self._named = named
        self._out: frozenset[str] = frozenset()

    @functools.cached_property
    def _flavors(self) -> Mapping[str, Flavor]:
        return self._read_flavors()

    @functools.cached_property
    def _built(self) -> Mapping[str, Entry] | None:
        return self._read_built()

    def flavor(self, group: str, name: str | None) -> Flavor:
        """Return a flavor by its id or name.

        :param group: name of the nodegroup with this flavor.
        :raises NodegroupRefused: if there is no such flavor.
        """
        found = self._flavors.get(name or "")
        if found is None:
            raise errors.NodegroupRefused(
                group,
                [
                    f"there is no flavor {name!r} for this user; see "
                    "'openstack flavor list'"
                ],
            )
        return found

    def render(self, group: Group) -> Rendered:
        """Return the chart values of a nodegroup.

        :raises NodegroupRefused: if it cannot be built.
        """
        flavor = self.flavor(group.shape.name, group.flavor)
        return nodegroup.render(
            group.shape, flavor, self._settings, self._read_networks
        )

    def grows(self, group: Group) -> bool:
        """Return whether a nodegroup gets more nodes than it has."""
        before = self._entry(group)
        return before is None or _count(before) < group.count

    def is_left_out(self, group: Group) -> bool:
        """Return whether this operation leaves out a nodegroup.

        It failed before it was ever built, or it is being deleted: its row in
        the database stays until its machines are gone.
        """
        if group.uuid in self._out or group.deleted:
            return True
        return (
            group.failed
            and group.uuid not in self._named
            and self._built is not None
            and self._entry(group) is None
        )

    def leave_out(self, uuids: Iterable[str]) -> None:
        """Leave nodegroups out of this operation, whatever their status."""
        self._out = frozenset(uuids)

    def entries(self, groups: Sequence[Group]) -> dict[str, Entry]:
        """Return the keys to add to each nodegroup's entry in the chart.

        :param groups: all workers in the chart's values, the oldest first.
        :returns: keys by UUID, without nodegroups that are not built.
        """
        found: dict[str, Entry] = {}
        taken: dict[str, str] = {}
        for each in groups:
            name, chart_name = each.shape.name, each.shape.chart_name
            if self.is_left_out(each):
                LOG.info("Nodegroup %s is left out", name)
                continue
            if chart_name in taken:
                LOG.warning(
                    "Nodegroup %s has the name of %s in the chart, and is "
                    "left out",
                    name,
                    taken[chart_name],
                )
                continue
            try:
                found[each.uuid] = self.render(each).values
            except errors.NodegroupRefused as error:
                before = self._entry(each)
                if before is None:
                    LOG.warning("%s", error)
                    continue
                LOG.warning("%s; it is left as it was built", error)
                found[each.uuid] = {
                    **before,
                    "machineCount": min(_count(before), each.count),
                }
            taken[chart_name] = name
        return found

    def _entry(self, group: Group) -> Entry | None:
        return (self._built or {}).get(group.shape.chart_name)


def _count(entry: Entry) -> int:
    found = entry.get("machineCount")
    return found if isinstance(found, int) else 0
