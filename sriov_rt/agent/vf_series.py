# SPDX-License-Identifier: Apache-2.0

"""Series of VFs for Prometheus, by their owners.

The owner is a label, so a VF with a new owner starts a new series and ends the
last one. Prometheus sets the label ``instance`` to its scrape target, so the
label of a server is ``instance_uuid``.
"""

import dataclasses
import logging
from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.facts import CountedVf
from sriov_rt.guest import passthrough
from sriov_rt.guest import running
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.host.guest_processes import MACHINES
from sriov_rt.host.root import Root

LOG = logging.getLogger(__name__)

#: Help of each metric, by name.
HELP = {
    **{
        f"sriov_rt_vf_{way}_{what}_total": f"{noun} that a VF has {verb}."
        for way, verb in (
            ("receive", "received"),
            ("transmit", "transmitted"),
        )
        for what, noun in (("packets", "Packets"), ("bytes", "Bytes"))
    },
    "sriov_rt_vf_receive_dropped_total": "Packets to a VF that were dropped.",
    "sriov_rt_vf_transmit_dropped_total": (
        "Packets of a VF that were dropped."
    ),
    "sriov_rt_vf_counters_known": "Whether anything counts the VF's packets.",
    "sriov_rt_vf_settings_differing": (
        "Attributes of a VF that are not as its record has them."
    ),
}

#: A name, its labels, and a value.
Sample = tuple[str, dict[str, str], float]


def samples(found: Iterable[CountedVf], root: Root) -> Iterator[Sample]:
    """Yield the series of VFs.

    :param root: root of the files about guests with whole VFs.
    """
    for each in owned(found, root):
        labels = {
            "pf": each.pf,
            "vf": str(each.index),
            "port": each.port,
            "instance_uuid": each.instance,
        }
        is_known = not isinstance(each.counters, Unknown)
        yield "sriov_rt_vf_counters_known", labels, float(is_known)
        if each.differing is not None:
            differing = float(each.differing)
            yield "sriov_rt_vf_settings_differing", labels, differing
        if not isinstance(each.counters, Unknown):
            for name, value in dataclasses.asdict(each.counters).items():
                yield f"sriov_rt_vf_{name}_total", labels, float(value)


def owned(found: Iterable[CountedVf], root: Root) -> list[CountedVf]:
    """Return VFs with their owners, including libvirt's guests."""
    known = list(found)
    if not any(each.passed and not each.instance for each in known):
        return known
    guests = _guests(root)
    return [
        dataclasses.replace(each, instance=guests.get(each.address, ""))
        if each.passed and not each.instance
        else each
        for each in known
    ]


def _guests(root: Root) -> dict[str, str]:
    """Return the guest of each passed-through device, by PCI address."""
    guests = running.guests(root, MACHINES)
    found = {}
    for each in () if isinstance(guests, Unknown) else guests:
        try:
            devices = passthrough.of(each.domain)
        except DomainRejected as error:
            LOG.debug("devices of %s are not known: %s", each.instance, error)
            continue
        found.update({x.address: each.instance for x in devices})
    return found


def text(found: Iterable[Sample]) -> str:
    """Return samples in Prometheus' text format, for a textfile collector."""
    lines: dict[str, list[str]] = {}
    for name, labels, value in found:
        pairs = ",".join(
            f'{key}="{_escaped(each)}"' for key, each in labels.items()
        )
        lines.setdefault(name, []).append(f"{name}{{{pairs}}} {value:.0f}\n")
    return "".join(
        f"# HELP {name} {HELP[name]}\n"
        f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n"
        + "".join(each)
        for name, each in lines.items()
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
