# SPDX-License-Identifier: Apache-2.0

"""The extra specs of the ``sriov_rt`` namespace, and their parsers.

The API's validators, the filter, the guest hook and the docs all use this one
table.
"""

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from sriov_rt.parse import errors
from sriov_rt.parse import numbers
from sriov_rt.parse import pci
from sriov_rt.parse import selector
from sriov_rt.request import words

NAMESPACE = "sriov_rt"
NFD_PREFIX = "feature.node.kubernetes.io"

#: Nova keeps extra-spec values in a column of 255 characters
#: (nova/db/api/models.py, FlavorExtraSpecs.value).
MAX_VALUE = 255

#: One second: no host with a greater latency could be called realtime.
MAX_LATENCY_US = 1_000_000

#: Release of the extra specs that name no later one.
FIRST = "the first release"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One extra spec of ours.

    :param field: the field of :class:`Request` that it sets.
    :param values: description of its values, for messages and docs.
    :param help: what it requests, one sentence.
    :param parse: converts text to the field's value; raises ParseError.
    :param unset: the default: one of its values, or a description.
    :param parts: the parts of a host's facts that decide on it, besides CPUs
        and Nova's (sriov_rt.facts.PARTS); guest hooks observe no others.
    :param since: the first release with it; :data:`FIRST` or a number.
    """

    field: str
    values: str
    help: str
    parse: Callable[[str], Any]
    unset: str
    parts: tuple[str, ...]
    since: str = FIRST


def _choice(values: Mapping[str, Any]) -> Callable[[str], Any]:
    known = ", ".join(values)
    expected = f"one of {known}" if len(values) > 1 else known

    def parse(text: str) -> Any:
        if text not in values:
            raise errors.ParseError("value", text, f"{expected} expected")
        return values[text]

    return parse


def _parse_selector(text: str) -> selector.Selector:
    return selector.parse_selector(text, default_prefix=NFD_PREFIX)


def _parse_nic(text: str) -> words.Nic:
    if text == "any":
        return words.Nic(text, frozenset(), None)
    if text in words.NIC_VENDORS:
        return words.Nic(text, words.NIC_VENDORS[text], None)
    try:
        found = pci.PciId.parse(text)
    except errors.ParseError as error:
        raise errors.ParseError(
            "NIC",
            text,
            f"any, {', '.join(words.NIC_VENDORS)} or a PCI vendor[:device] id "
            "such as 8086:10ca expected",
            error.position,
        ) from None
    vendor, _, device = str(found).partition(":")
    return words.Nic(str(found), frozenset({vendor}), device or None)


def _parse_vif(text: str) -> words.Vif:
    kind_text, colon, mode = text.partition(":")
    kind = _choice({each.value: each for each in words.VifKind})(kind_text)
    modes = words.VIF_MODES[kind]
    if not colon:
        return words.Vif(kind, modes[0] if modes else None)
    if mode not in modes:
        allowed = f"one of {', '.join(modes)}" if modes else "no mode"
        raise errors.ParseError(
            "mode", text, f"{kind} takes {allowed}", len(kind_text) + 1
        )
    return words.Vif(kind, mode)


def _parse_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise errors.ParseError(
            "name",
            text,
            "1 to 64 of A-Z a-z 0-9 . _ - expected, a letter or digit first",
        )
    return text


def _parse_classes(text: str) -> frozenset[words.DeviceClass]:
    choose = _choice({each.value: each for each in words.DeviceClass})
    return frozenset(choose(each.strip(" ")) for each in text.split(","))


def _parse_scheduling(text: str) -> words.Scheduling:
    scheduler, _, priority = text.partition(":")
    if scheduler not in ("fifo", "rr"):
        raise errors.ParseError("scheduler", text, "fifo:N or rr:N expected")
    return words.Scheduling(
        scheduler, numbers.parse_int(priority, "priority", 1, 99)
    )


def _parse_latency(text: str) -> int:
    return numbers.parse_int(text, "latency in µs", 1, MAX_LATENCY_US)


_SCHEDULING = "fifo:PRIORITY or rr:PRIORITY, 1 to 99"

#: Every extra spec of ours, by its name without the namespace.
KEYS: Mapping[str, Key] = {
    "realtime": Key(
        "realtime",
        "required",
        "Only hosts whose dedicated pCPUs are isolated and nohz_full.",
        _choice({"required": True}),
        "any host that Nova chooses",
        ("kernel", "memory", "irqs", "occupancy", "maintenance"),
    ),
    "kernel": Key(
        "kernel",
        "preempt_rt, any",
        "The kernel that the host runs.",
        _choice({each.value: each for each in words.Kernel}),
        "any",
        ("kernel",),
    ),
    "node_selector": Key(
        "node_selector",
        "a Kubernetes label selector",
        "Matched against the host's NFD labels; a key without a slash means "
        f"{NFD_PREFIX}/<key>.",
        _parse_selector,
        "hosts with any labels",
        ("labels",),
    ),
    "nic": Key(
        "nic",
        "any, solarflare, intel, or a PCI vendor[:device] id",
        "The NIC that the instance's fast ports need.",
        _parse_nic,
        "no NIC is required",
        ("nics",),
    ),
    "vif": Key(
        "vif",
        "vf, macvlan[:MODE], ipvlan[:MODE]",
        "How the instance's ports on fast physical networks are made.",
        _parse_vif,
        "as neutron-server's [ml2_sriov_rt] physical_networks says",
        ("nics", "kernel", "vifs"),
    ),
    "onload": Key(
        "onload",
        "required, off",
        "Onload must be usable on the host and is injected.",
        _choice({"required": True, "off": False}),
        "off",
        ("onload", "vifs"),
    ),
    "onload_profile": Key(
        "onload_profile",
        "the name of an Onload profile",
        "The Onload profile, by a name that the operator allows.",
        _parse_name,
        "the host's [onload] default_profile",
        ("onload",),
    ),
    "guest": Key(
        "guest",
        "standard, lean, bare",
        "How far the guest's domain is stripped of devices.",
        _choice({each.value: each for each in words.Guest}),
        "standard",
        (),
    ),
    "keep": Key(
        "keep",
        "device classes with commas between: "
        + ", ".join(each.value for each in words.DeviceClass),
        "Devices that lean and bare leave in.",
        _parse_classes,
        "nothing, beside devices that extra specs of Nova request",
        (),
    ),
    "vcpu_sched": Key(
        "vcpu_sched",
        _SCHEDULING,
        "Scheduling of the realtime vCPUs (with realtime: fifo:1).",
        _parse_scheduling,
        "fifo:1 with realtime, else as Nova sets it",
        (),
    ),
    "iothread_sched": Key(
        "iothread_sched",
        _SCHEDULING,
        "Scheduling of the guest's I/O threads.",
        _parse_scheduling,
        "as Nova sets it",
        (),
    ),
    "emulator_sched": Key(
        "emulator_sched",
        _SCHEDULING,
        "Scheduling of the guest's emulator threads.",
        _parse_scheduling,
        "as Nova sets it",
        (),
    ),
    "max_latency_us": Key(
        "max_latency_us",
        f"a whole number from 1 to {MAX_LATENCY_US}",
        "The host holds a latency certificate at or below it, in µs.",
        _parse_latency,
        "no certificate is required",
        ("latency", "kernel", "maintenance"),
    ),
}


def parse_value(name: str, text: str) -> Any:
    """Return the value of one extra spec of ours.

    :param name: the key without its namespace, such as ``kernel``.
    :param text: the value in the flavor.
    :raises ParseError: for an unknown name or an invalid value.
    """
    key = KEYS.get(name)
    if key is None:
        raise errors.ParseError(
            "extra spec",
            f"{NAMESPACE}:{name}",
            f"one of {', '.join(KEYS)} expected",
        )
    if len(text) > MAX_VALUE:
        raise errors.ParseError(
            "value", text, f"at most {MAX_VALUE} characters", MAX_VALUE
        )
    return key.parse(text)
