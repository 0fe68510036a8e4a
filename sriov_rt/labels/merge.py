# SPDX-License-Identifier: Apache-2.0

"""Labels of many sources merged into one set."""

import dataclasses
import types
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import LabelFacts
from sriov_rt.parse import features

#: Prefix of the labels that the agent itself wrote for NFD. If they come back
#: from a source, they are older than the facts that they were made from.
OWN_PREFIX = f"{features.PREFIX}/sriov-rt."

#: In NFD this label means that the kernel supports nohz_full, in our kernel
#: labels that some CPUs are nohz_full. They differ on most hosts, and neither
#: is wrong.
_OTHER_MEANING = frozenset({f"{features.PREFIX}/kernel-config.NO_HZ_FULL"})


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """Last labels of a source.

    :param labels: full key to value.
    :param stale: whether they are older than the limit.
    """

    source: str
    labels: Mapping[str, str]
    stale: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Contradiction:
    """A label on which a source and the kernel differ.

    :param kernel: the kernel's value; None if the label is absent there.
    """

    label: str
    value: str
    source: str
    kernel: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Merged:
    """The merged labels, and the contradictions to the kernel."""

    labels: LabelFacts
    contradictions: tuple[Contradiction, ...]


def merge(kernel: LabelFacts, readings: Iterable[Reading]) -> Merged:
    """Return the merged labels of all sources.

    For each label the kernel's value takes precedence, then that of the first
    source that is not stale and has the label, then that of the first stale
    source.

    :param kernel: the kernel's own labels.
    :param readings: one for each source, in order of precedence.
    """
    if isinstance(kernel.values, Unknown):
        return Merged(kernel, ())
    if isinstance(kernel.sources, Unknown):
        return Merged(kernel, ())
    values, sources = dict(kernel.values), dict(kernel.sources)
    contradictions: list[Contradiction] = []
    ordered = sorted(readings, key=lambda each: each.stale)
    for reading in ordered:
        for key, value in reading.labels.items():
            if key.startswith(OWN_PREFIX):
                continue
            if key in kernel.sources:
                contradictions += _against(kernel.values, key, value, reading)
            elif key not in values:
                values[key] = value
                sources[key] = reading.source
    stale = sorted(each.source for each in ordered if each.stale)
    return Merged(
        LabelFacts(
            types.MappingProxyType(values),
            types.MappingProxyType(sources),
            tuple(stale),
        ),
        tuple(sorted(contradictions, key=lambda each: each.label)),
    )


def _against(
    kernel: Mapping[str, str], key: str, value: str, reading: Reading
) -> list[Contradiction]:
    actual = kernel.get(key)
    # The last answer of a source that is down may have been true then.
    if value == actual or reading.stale or key in _OTHER_MEANING:
        return []
    return [Contradiction(key, value, reading.source, actual)]
