# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""VFs as text for a reader at a terminal, and as plain values."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from sriov_rt.host.table import printable
from sriov_rt.nic import plan
from sriov_rt.nic.family import Attribute
from sriov_rt.nic.words import VfState

LIST_HEAD = ("VF", "ADDRESS", "DRIVER", "INTERFACE", "MAC", "VLAN", "OWNER")


def columns(
    head: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
    """Yield lines with columns as wide as their widest cell."""
    cells = [head, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (
            f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)
        )
        yield "  ".join(padded).rstrip()


def listed(states: Iterable[VfState]) -> Iterator[str]:
    """Yield the table of VFs."""
    return columns(LIST_HEAD, (_row(each) for each in states))


def shown(state: VfState) -> Iterator[str]:
    """Yield one VF, a line for each fact."""
    budget = state.mac_budget
    facts = [
        ("vf", str(state.id)),
        ("address", state.id.address),
        ("family", state.family),
        ("interface", interface(state)),
        ("owner", state.alias or "-"),
        ("iommu_group", _or_dash(state.iommu_group)),
        ("numa_node", _or_dash(state.numa_node)),
        ("mac_budget", "unknown" if budget is None else str(budget)),
    ]
    facts += [
        (each, plan.told(getattr(state.settings, each))) for each in Attribute
    ]
    for name, value in facts:
        yield f"{name:<14} {printable(value)}"


def interface(state: VfState) -> str:
    """Return the name of a VF's interface, or where it is."""
    if state.device.elsewhere:
        return "(another namespace)"
    return state.netdev or "-"


def to_plain(state: VfState) -> dict[str, Any]:
    """Return a VF as JSON has it."""
    found = dataclasses.asdict(state)
    device = found.pop("device")
    found["vf"] = found.pop("id")
    found["interface_mac"] = device["mac"]
    found["elsewhere"] = device["elsewhere"]
    return found


def plan_to_plain(made: plan.Plan) -> dict[str, Any]:
    """Return a plan as JSON has it."""
    return {
        "vf": dataclasses.asdict(made.vf),
        "family": made.family,
        "steps": [dataclasses.asdict(each) for each in made.steps],
        "rebind": made.rebind,
        "notes": list(made.notes),
    }


def _row(state: VfState) -> tuple[str, ...]:
    settings = state.settings
    return (
        str(state.id),
        state.id.address,
        state.driver or "-",
        interface(state),
        settings.mac or "unknown",
        _or_dash(settings.vlan),
        state.alias or "-",
    )


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
