# SPDX-License-Identifier: Apache-2.0

"""Binding details that say how a port is made: total, bounded.

The ML2 driver writes these details, and the compute host reads them out of
the instance's network information.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from sriov_rt.parse import errors
from sriov_rt.parse import numbers
from sriov_rt.parse.link import MAX_VLAN
from sriov_rt.request import words
from sriov_rt.vif import validation

#: The vif_type of a port that is ours to plug, and our os-vif plugin's name.
VIF_TYPE = "sriov_rt"

KIND = "kind"
MODE = "mode"
PHYSICAL_NETWORK = "physical_network"
VLAN = "vlan"


@dataclasses.dataclass(frozen=True, slots=True)
class Details:
    """How a port is made, unless its flavor says otherwise.

    :param vlan: 0 to 4094; 0 is untagged.
    """

    vif: words.Vif
    physical_network: str
    vlan: int = 0


def parse(found: Mapping[str, Any]) -> Details:
    """Return the details of a binding; other drivers' keys are ignored.

    :param found: ``binding:vif_details`` of a port; a mode that is absent or
        None is the first of its kind.
    :raises ParseError: if a value is missing or not valid.
    """
    kind = _kind(_text(found, KIND))
    modes = words.VIF_MODES[kind]
    mode = None
    if modes:
        mode = _text(found, MODE) if found.get(MODE) else modes[0]
        if mode not in modes:
            raise errors.ParseError(
                MODE, mode, f"{kind} takes one of {', '.join(modes)}"
            )
    return Details(
        words.Vif(kind, mode),
        validation.physical_network(_text(found, PHYSICAL_NETWORK)),
        _vlan(found.get(VLAN)),
    )


def _kind(text: str) -> words.VifKind:
    try:
        return words.VifKind(text)
    except ValueError:
        raise errors.ParseError(
            KIND, text, f"one of {', '.join(words.VifKind)} expected"
        ) from None


def _vlan(found: object) -> int:
    if found is None:
        return 0
    # Neutron's drivers write a number or its digits.
    text = found if isinstance(found, str) else repr(found)[: errors.MAX_TEXT]
    return numbers.parse_int(text, VLAN, 0, MAX_VLAN)


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if isinstance(value, str):
        return value
    raise errors.ParseError(
        f"binding detail {key}",
        repr(value)[: errors.MAX_TEXT],
        "a text expected; check that the port is bound by sriov-rt's "
        "mechanism driver",
    )
