# SPDX-License-Identifier: Apache-2.0

"""VFs as rows of a table, and as plain values."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from sriov_rt.nic import plan
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import drift


def fields(state: VfState) -> Iterator[tuple[str, str]]:
    """Yield name and value of each fact of a VF."""
    budget = state.mac_budget
    yield from (
        ("vf", str(state.id)),
        ("address", state.id.address),
        ("family", state.family),
        ("interface", interface(state)),
        ("holder", holders_of(state)),
        ("reason", "; ".join(_reasons(state)) or "-"),
        ("owner", state.alias or "-"),
        ("iommu_group", _or_dash(state.iommu_group)),
        ("numa_node", _or_dash(state.numa_node)),
        ("mac_budget", "unknown" if budget is None else str(budget)),
    )
    for each in Attribute:
        yield str(each), plan.formatted(getattr(state.settings, each))


def interface(state: VfState) -> str:
    """Return the name of a VF's interface, or where it is."""
    if state.device.elsewhere:
        return "(another namespace)"
    return state.netdev or "-"


def to_plain(state: VfState) -> dict[str, Any]:
    """Return a VF as a JSON object."""
    found = dataclasses.asdict(state)
    device = found.pop("device")
    found.pop("baseline")
    found["holders"] = found.pop("tenancy")["holders"]
    found["vf"] = found.pop("id")
    found["interface_mac"] = device["mac"]
    found["elsewhere"] = device["elsewhere"]
    return found


def plan_to_plain(made: plan.Plan) -> dict[str, Any]:
    """Return a plan as a JSON object."""
    return {
        "vf": dataclasses.asdict(made.vf),
        "family": made.family,
        "steps": [dataclasses.asdict(each) for each in made.steps],
        "rebind": made.rebind,
        "flr": made.flr,
        "notes": list(made.notes),
    }


def row(state: VfState) -> tuple[str, ...]:
    """Return a VF as a row of the list."""
    settings = state.settings
    return (
        str(state.id),
        state.id.address,
        state.driver or "-",
        interface(state),
        settings.mac or "unknown",
        _or_dash(settings.vlan),
        holders_of(state),
        state.alias or "-",
    )


def holders_of(state: VfState) -> str:
    """Return the holders of a VF, with their states."""
    found = [f"{each} ({each.state})" for each in state.tenancy.holders]
    return ", ".join(found) or "-"


def _reasons(state: VfState) -> Iterator[str]:
    """Yield why a VF is kept from others and what was changed, clauses."""
    for each in state.tenancy.holders:
        if each.is_quarantined:
            yield each.clause(state.id.address)
    yield from drift(state.tenancy, state.settings)


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
