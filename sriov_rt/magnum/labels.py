# SPDX-License-Identifier: Apache-2.0

"""Our labels of clusters and nodegroups, ``sriov_rt_*``.

Users set them. A label may require a property of the flavor, or name networks
of the user; no label relaxes a check.
"""

import dataclasses
import ipaddress
import re
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from sriov_rt.magnum import errors
from sriov_rt.magnum.pod_networks import DEFAULT_PODS
from sriov_rt.magnum.pod_networks import PodNetworks
from sriov_rt.parse import errors as parse_errors
from sriov_rt.parse import numbers
from sriov_rt.request import grammar
from sriov_rt.request import words

PREFIX = "sriov_rt_"

#: Matches misspelt labels of ours too: ``sriov_rt:vif``, ``SRIOV-RT.vif``.
_MEANT = re.compile(r"sriov[^a-z0-9]{0,3}rt", re.IGNORECASE)

#: The limit of extra specs, and of network names in Neutron.
MAX_VALUE = grammar.MAX_VALUE

#: The most fast ports of one server.
MAX_NETWORKS = 16

#: The most pod addresses of one node.
MAX_PODS = 1024

#: The most huge pages of one size: 2 TiB of the smaller ones.
MAX_PAGES = 1024 * 1024

#: Sizes of huge pages on x86-64, MiB.
PAGE_MIB: Mapping[str, int] = {"2M": 2, "1G": 1024}

#: Handlers of container runtimes besides runc.
RUNTIMES = ("kata-rt",)


class LabelsRejected(errors.MagnumError, ValueError):
    """Labels that are unknown or have a bad value.

    :param problems: label to a clause, at least one.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__(
            errors.joined(
                [f"label {key!r}: {why}" for key, why in problems.items()]
            )
        )


@dataclasses.dataclass(frozen=True, slots=True)
class HugePages:
    """Huge pages that the node's kernel reserves for pods.

    :param size: a key of :data:`PAGE_MIB`.
    :param count: number of pages.
    """

    size: str
    count: int

    @property
    def mib(self) -> int:
        """Their memory, MiB."""
        return PAGE_MIB[self.size] * self.count


@dataclasses.dataclass(frozen=True, slots=True)
class Labels:
    """The sriov_rt labels of a nodegroup.

    :param demands: extra spec, without its namespace, to the value that the
        flavor must have.
    :param networks: names or UUIDs in Neutron, in the order of the label;
        each node gets a fast port on each.
    :param pod_vif: how pods get interfaces on those networks.
    :param pod_subnets: subnets of the pods' addresses, in the label's order.
    :param pods_per_node: addresses of each node in each subnet.
    :param port_security: whether fast ports have Neutron's port security.
    :param trusted_vf: whether VFs of the nodes are trusted; None derives it
        from the pods' interfaces on them.
    """

    demands: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    networks: tuple[str, ...] = ()
    huge_pages: HugePages | None = None
    runtimes: tuple[str, ...] = ()
    pod_vif: words.Vif | None = None
    pod_subnets: tuple[ipaddress.IPv4Network, ...] = ()
    pods_per_node: int = DEFAULT_PODS
    port_security: bool = False
    trusted_vf: bool | None = None

    @property
    def pod_networks(self) -> PodNetworks | None:
        """The networks of pods; None if there are none."""
        if self.pod_vif is None:
            return None
        return PodNetworks(
            vif=self.pod_vif,
            networks=tuple(dict.fromkeys(self.networks)),
            subnets=self.pod_subnets,
            pods=self.pods_per_node,
        )


def _networks(text: str) -> tuple[str, ...]:
    names = text.split(" ")
    if not all(each and each.isprintable() for each in names):
        raise parse_errors.ParseError(
            "networks",
            text,
            "names or UUIDs of networks with one space between expected",
        )
    if len(names) > MAX_NETWORKS:
        raise parse_errors.ParseError(
            "networks", text, f"at most {MAX_NETWORKS} networks"
        )
    return tuple(names)


def _pod_vif(text: str) -> words.Vif:
    found: words.Vif = grammar.parse_value("vif", text)
    return found


def _pod_subnets(text: str) -> tuple[ipaddress.IPv4Network, ...]:
    found = text.split(" ")
    if len(found) > MAX_NETWORKS:
        raise parse_errors.ParseError(
            "pod subnets", text, f"at most {MAX_NETWORKS} subnets"
        )
    try:
        return tuple(ipaddress.IPv4Network(each) for each in found)
    except ValueError:
        raise parse_errors.ParseError(
            "pod subnets",
            text,
            "IPv4 subnets such as 172.20.0.0/16 with one space between "
            "expected",
        ) from None


def _pods_per_node(text: str) -> int:
    return numbers.parse_int(text, "pods per node", 1, MAX_PODS)


def _huge_pages(text: str) -> HugePages:
    size, _, count = text.partition(":")
    if size not in PAGE_MIB:
        raise parse_errors.ParseError(
            "huge pages", text, "SIZE:COUNT such as 2M:512 or 1G:4 expected"
        )
    return HugePages(
        size, numbers.parse_int(count, "number of pages", 1, MAX_PAGES)
    )


def _runtimes(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(" ")))
    if not set(names) <= set(RUNTIMES):
        raise parse_errors.ParseError(
            "runtimes", text, f"of {', '.join(RUNTIMES)} expected"
        )
    return names


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise parse_errors.ParseError("switch", text, "on or off expected")
    return text == "on"


#: Parser of each label that is not an extra spec, by field of
#: :class:`Labels`.
OWN: Mapping[str, Callable[[str], Any]] = {
    "networks": _networks,
    "huge_pages": _huge_pages,
    "runtimes": _runtimes,
    "pod_vif": _pod_vif,
    "pod_subnets": _pod_subnets,
    "pods_per_node": _pods_per_node,
    "port_security": _switch,
    "trusted_vf": _switch,
}


def parse(labels: Mapping[str, str]) -> Labels:
    """Parse the sriov_rt labels of a nodegroup.

    :param labels: all labels; others are ignored.
    :raises LabelsRejected: with every problem found, not just the first.
    """
    found: dict[str, Any] = {}
    demands: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for key, text in labels.items():
        if not _MEANT.match(key):
            continue
        name = key.removeprefix(PREFIX)
        try:
            if name in OWN and key.startswith(PREFIX):
                found[name] = _checked(OWN[name], text)
            elif name in grammar.KEYS and key.startswith(PREFIX):
                demands[name] = grammar.parse_value(name, text)
            else:
                problems[key] = f"{expected()} expected"
        except parse_errors.ParseError as error:
            problems[key] = str(error).rstrip(".")
    if problems:
        raise LabelsRejected(problems)
    return Labels(demands=demands, **found)


def expected() -> str:
    """Return the names of all sriov_rt labels, for a message."""
    return ", ".join(PREFIX + name for name in (*OWN, *grammar.KEYS))


def _checked(parser: Callable[[str], Any], text: str) -> Any:
    parse_errors.check_length("value", text, MAX_VALUE)
    return parser(text)
