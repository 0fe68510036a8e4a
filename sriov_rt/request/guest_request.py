# SPDX-License-Identifier: Apache-2.0

"""A Request outside Nova: one line of text, or the attributes of an element.

The names are those of the extra specs, without their namespace. ``pinning``
is an additional one, since outside Nova nothing else assigns pCPUs to vCPUs.
"""

import dataclasses
from collections.abc import Mapping

from sriov_rt.parse import errors
from sriov_rt.request import grammar

#: Separator of two extra specs. oVirt ends a property at a semicolon, and
#: selectors contain commas and spaces; none of our values contains this.
SEPARATOR = "&"

#: The name of the vCPUs' pinning to pCPUs; see sriov_rt.parse.pinning.
PINNING = "pinning"

#: The longest text, in characters: enough for all keys at their longest.
MAX_TEXT = (len(grammar.KEYS) + 1) * (grammar.MAX_VALUE + 32)

#: The longest pinning, in characters: a host full of vCPUs, each taking
#: ``1023#1023_``.
MAX_PINNING = 16 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class GuestRequest:
    """Request of a guest from its manager, not parsed yet.

    :param extra_specs: by full key, such as ``sriov_rt:guest``.
    :param pinning: pCPUs of its vCPUs, such as ``0#6_1#7``; None for none.
    """

    extra_specs: Mapping[str, str]
    pinning: str | None = None


def from_text(text: str) -> GuestRequest:
    """Return the request in a text.

    :param text: such as ``realtime=required & guest=lean``; an empty text is
        a request for clean VFs only.
    :raises ParseError: if it is too long, or a part is not ``KEY=VALUE``.
    """
    errors.check_length("request", text, MAX_TEXT + MAX_PINNING)
    found: dict[str, str] = {}
    for part in text.split(SEPARATOR) if text.strip() else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not name:
            raise errors.ParseError(
                "request", text, f"KEY=VALUE expected, not {part.strip()!r}"
            )
        if name in found:
            raise errors.ParseError("request", text, f"{name} is there twice")
        found[name] = value
    return from_values(found)


def from_values(values: Mapping[str, str]) -> GuestRequest:
    """Return the request made of named values.

    :param values: name to value; names may include the namespace.
    :raises ParseError: for a name that is not an extra spec's.
    """
    specs = {}
    pinning = None
    prefix = f"{grammar.NAMESPACE}:"
    for given, value in values.items():
        name = given.removeprefix(prefix)
        if name == PINNING:
            errors.check_length(PINNING, value, MAX_PINNING)
            pinning = value
        elif name in grammar.KEYS:
            specs[prefix + name] = value
        else:
            known = ", ".join((*grammar.KEYS, PINNING))
            raise errors.ParseError(
                "request", given, f"one of {known} expected"
            )
    return GuestRequest(specs, pinning)
