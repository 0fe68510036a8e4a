# SPDX-License-Identifier: Apache-2.0

"""Request of a flavor, parsed from its extra specs."""

import contextlib
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.parse import errors
from sriov_rt.request import grammar
from sriov_rt.request import words
from sriov_rt.request.words import Attachment
from sriov_rt.request.words import Request

__all__ = [
    "Attachment",
    "Request",
    "RequestError",
    "asks",
    "misspelt",
    "parse",
]


class RequestError(exceptions.SriovRtError, ValueError):
    """A flavor's extra specs request something impossible.

    :param problems: extra-spec key to a sentence, at least one.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__(
            "; ".join(f"{key}: {text}" for key, text in problems.items())
        )


#: Nova's extra specs that keep a device in the guest: key, values, device
#: (read by nova/virt/hardware.py and nova/virt/libvirt/driver.py).
_NOVA_KEEPS: tuple[tuple[str, frozenset[str], words.DeviceClass], ...] = (
    ("hw_rng:allowed", frozenset({"true"}), words.DeviceClass.RNG),
    (
        "hw:watchdog_action",
        frozenset({"poweroff", "reset", "pause", "none"}),
        words.DeviceClass.WATCHDOG,
    ),
)


_PAGE_SIZE = re.compile(r"([0-9]{1,9})([KMG]B)?", re.ASCII)
_PAGE_UNITS = {"KB": 1, "MB": 1024, "GB": 1024 * 1024}

#: The largest base page size of any architecture, KiB.
_SMALL_KIB = 64

#: Keys by which Nova claims CPUs without ``hw:cpu_policy``
#: (_get_vcpu_pcpu_resources of nova/virt/hardware.py).
_CPUS = re.compile(r"resources(?:[1-9][0-9]*)?:([VP])CPU", re.ASCII)


#: Misspellings of the namespace.
_MISSPELT = re.compile(r"(?i)\s*sriov[-_. ]?rt\s*[:._-]")


def asks(extra_specs: Iterable[str]) -> bool:
    """Return whether any of these extra-spec keys is ours."""
    return any(key.startswith("sriov_rt:") for key in extra_specs)


def misspelt(extra_specs: Iterable[str]) -> tuple[str, ...]:
    """Return the keys that are probably meant as ours, but not recognised.

    Nova stores any key in a namespace without a validator.
    """
    return tuple(
        key
        for key in extra_specs
        if _MISSPELT.match(key) and not key.startswith("sriov_rt:")
    )


def parse(extra_specs: Mapping[str, str]) -> Request:
    """Return the Request of a flavor's extra specs.

    :param extra_specs: all of the flavor's; other namespaces are ignored,
        except for the ``hw:`` keys that a Request builds on.
    :raises RequestError: with every problem found, not just the first.
    """
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for full, text in extra_specs.items():
        namespace, _, name = full.partition(":")
        if namespace != grammar.NAMESPACE:
            continue
        try:
            value = grammar.parse_value(name, text)
            values[grammar.KEYS[name].field] = value
        except errors.ParseError as error:
            problems[full] = str(error).rstrip(".")
    if "onload_profile" in values and not values.get("onload"):
        problems.setdefault(
            "sriov_rt:onload_profile",
            "a profile without Onload; add sriov_rt:onload=required",
        )
    claimed = _claimed_cpus(extra_specs)
    policy = {"hw:cpu_policy"} & extra_specs.keys()
    if claimed and (policy or len({*claimed.values()}) > 1):
        problems[max(claimed)] = (
            f"Nova takes one of {', '.join(sorted({*claimed, *policy}))}; "
            "unset the others"
        )
    if problems:
        raise RequestError(problems)
    values["keep"] = values.get("keep", frozenset()) | _kept_by_nova(
        extra_specs
    )
    return Request(**values, **_nova_cpus(extra_specs, values))


def _kept_by_nova(
    extra_specs: Mapping[str, str],
) -> frozenset[words.DeviceClass]:
    return frozenset(
        device
        for key, values, device in _NOVA_KEEPS
        if extra_specs.get(key, "").lower() in values
    )


def _huge_page_kib(text: str) -> int | None:
    """Return a page size, KiB; 0 for any huge page, None for none.

    It is read as by _get_numa_pagesize_constraint of nova/virt/hardware.py:
    without a unit in KiB. Values that Nova refuses are left to Nova.
    """
    if text == "large":
        return 0
    match = _PAGE_SIZE.fullmatch(text)
    if match is None:
        return None
    kib = int(match[1]) * _PAGE_UNITS[match[2] or "KB"]
    return kib if kib > _SMALL_KIB else None


def _claimed_cpus(extra_specs: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that claim CPUs in Nova, with V or P for the kind."""
    found = {}
    for key, text in extra_specs.items():
        match = _CPUS.fullmatch(key)
        # Nova ignores values that are not numbers.
        with contextlib.suppress(ValueError):
            if match and int(text):
                found[key] = match[1]
    return found


def _nova_cpus(
    extra_specs: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, Any]:
    # Nova reads hw:cpu_realtime with strutils.bool_from_string.
    truths = ("1", "t", "true", "on", "y", "yes")
    requested = (
        extra_specs.get("hw:cpu_realtime", "").strip().lower() in truths
    )
    policy = extra_specs.get("hw:cpu_policy")
    if policy is None and "P" in _claimed_cpus(extra_specs).values():
        # numa_get_constraints of nova/virt/hardware.py
        policy = "dedicated"
    return {
        "dedicated_cpus": policy == "dedicated",
        "mixed_cpus": policy == "mixed",
        "huge_page_kib": _huge_page_kib(
            extra_specs.get("hw:mem_page_size", "")
        ),
        "realtime_cpus": requested or values.get("realtime", False),
    }
