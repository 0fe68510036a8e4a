# SPDX-License-Identifier: Apache-2.0

"""VF settings from words such as ``vlan=7`` and ``spoofchk=on``."""

import re
import types
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.nic import rules
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.model import NO_MAC
from sriov_rt.parse import errors
from sriov_rt.parse import link
from sriov_rt.parse import numbers

#: The longest word, in characters.
MAX_WORD = 128

_DRIVER = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

Reader = Callable[[str], Any]


def parse(words: Iterable[str]) -> VfSettings:
    """Return the settings in words.

    :param words: each ``attribute=value``; a MAC may also be ``none``.
    :raises ParseError: for any other word, or an attribute that occurs twice.
    """
    found: dict[str, Any] = {}
    for word in words:
        errors.check_length("VF setting", word, MAX_WORD)
        name, equals, text = word.partition("=")
        if not equals or name not in _READERS:
            known = ", ".join(_READERS)
            raise errors.ParseError(
                "VF setting", word, f"attribute=value expected, of {known}"
            )
        if name in found:
            raise errors.ParseError("VF setting", word, f"{name} comes twice")
        found[name] = _READERS[Attribute(name)](text)
    return VfSettings(**found)


def _integer(what: str, minimum: int, maximum: int) -> Reader:
    return lambda text: numbers.parse_int(text, what, minimum, maximum)


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise errors.ParseError("switch", text, "on or off expected")
    return text == "on"


def _mac(text: str) -> str:
    if text == "none":
        return NO_MAC
    mac = text.lower()
    if not text.isascii() or not link.is_mac(mac):
        raise errors.ParseError(
            "MAC", text, "six pairs of hex digits or none expected"
        )
    problem = rules.mac_problem(mac)
    if problem is not None:
        raise errors.ParseError("MAC", text, problem)
    return mac


def _driver(text: str) -> str:
    if not _DRIVER.fullmatch(text):
        raise errors.ParseError("driver", text, "a driver's name expected")
    return text


def _one_of(kind: type[LinkState] | type[VlanProtocol], what: str) -> Reader:
    def read(text: str) -> Any:
        try:
            return kind(text.lower())
        except ValueError:
            known = ", ".join(kind)
            raise errors.ParseError(
                what, text, f"one of {known} expected"
            ) from None

    return read


_READERS: Mapping[Attribute, Reader] = types.MappingProxyType(
    {
        Attribute.MAC: _mac,
        Attribute.VLAN: _integer("VLAN", 0, link.MAX_VLAN),
        Attribute.QOS: _integer("VLAN priority", 0, rules.MAX_QOS),
        Attribute.VLAN_PROTOCOL: _one_of(VlanProtocol, "VLAN protocol"),
        Attribute.SPOOFCHK: _switch,
        Attribute.TRUST: _switch,
        Attribute.LINK_STATE: _one_of(LinkState, "link state"),
        Attribute.MIN_TX_RATE: _integer("rate", 0, rules.MAX_RATE),
        Attribute.MAX_TX_RATE: _integer("rate", 0, rules.MAX_RATE),
        Attribute.QUERY_RSS: _switch,
        Attribute.MTU: _integer("MTU", rules.MIN_MTU, rules.MAX_MTU),
        Attribute.PROMISC: _switch,
        Attribute.ALLMULTI: _switch,
        Attribute.DRIVER: _driver,
    }
)
