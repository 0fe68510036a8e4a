# SPDX-License-Identifier: Apache-2.0

"""Map of VFs: the interface and the owner of each.

The owner is in the records of ports, or is the process that holds the VF. Root
in a container can set the alias of its interface: it is shown, but proves
nothing.
"""

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.host import vfio
from sriov_rt.host import vfs
from sriov_rt.host.root import Root
from sriov_rt.nic import table
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState


@dataclasses.dataclass(frozen=True, slots=True)
class Mapped:
    """A VF and its owner.

    :param instance: owner: the instance of its port, a process, or the place
        of its interface; None for nobody.
    :param port: UUID of the Neutron port, from its record.
    :param on_it: interfaces on the VF's interface.
    :param alias: alias of its interface, a label.
    """

    vf: VfId
    netdev: str | None
    driver: str | None
    iommu_group: int | None
    instance: str | None
    port: str | None
    on_it: tuple[str, ...]
    alias: str


class Owners:
    """Owners of VFs: host.vfs.Owners, for the VFs of this package."""

    def __init__(self, root: Root) -> None:
        self._owners = vfs.Owners(root, vfio.Holders(root))

    def of(self, vf: VfId, device: VfDevice) -> str | None | Unknown:
        """Return the owner of a VF; None if it has none."""
        return self._owners.of(
            vf.address, device.driver, device.netdev, device.iommu_group
        )


def of(
    states: Iterable[VfState],
    owners: Owners,
    ports: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> Iterator[Mapped]:
    """Yield each VF with its owner.

    :param ports: (port, instance) of the ports on a VF, by its address; such a
        VF is yielded for each port.
    """
    for state in states:
        known = (ports or {}).get(state.id.address, ())
        for port, instance in known:
            yield _mapped(state, instance, port)
        if not known:
            yield _alone(state, owners)


def _alone(state: VfState, owners: Owners) -> Mapped:
    if state.tenancy.holders:
        return _mapped(state, table.holders_of(state), None)
    if state.netdev is not None:
        # Only its alias could name an owner.
        return _mapped(state, None, None)
    owner = owners.of(state.id, state.device)
    if isinstance(owner, Unknown):
        owner = f"unknown ({owner.reason})"
    return _mapped(state, owner, None)


def _mapped(state: VfState, instance: str | None, port: str | None) -> Mapped:
    return Mapped(
        vf=state.id,
        netdev=state.netdev,
        driver=state.driver,
        iommu_group=state.iommu_group,
        instance=instance,
        port=port,
        on_it=state.device.uppers,
        alias=state.alias,
    )


def row(each: Mapped) -> tuple[str, ...]:
    """Return a VF and its owner, as a row of a table."""
    on_it = f" < {','.join(each.on_it)}" if each.on_it else ""
    return (
        str(each.vf),
        each.vf.address,
        f"{each.netdev or '-'}{on_it}",
        each.driver or "-",
        "-" if each.iommu_group is None else str(each.iommu_group),
        each.instance or "-",
        each.port or "-",
        each.alias or "-",
    )
