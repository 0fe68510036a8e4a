# SPDX-License-Identifier: Apache-2.0

"""Labels stored by a host's agent, for other programs on that host."""

import dataclasses
import logging
import time
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.host.root import Root
from sriov_rt.labels import merge
from sriov_rt.labels import service
from sriov_rt.labels import store
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """A host's facts with its labels, and remarks about the labels.

    :param facts: facts with the labels of all sources.
    :param reasons: Reasons for the labels that the kernel contradicts.
    :param ages_s: source to the seconds since its labels were confirmed;
        infinite if that is not known.
    :param known: whether the agent has stored labels of this host. If not,
        only the kernel's are present, and the host may have others.
    """

    facts: HostFacts
    reasons: tuple[Reason, ...]
    ages_s: Mapping[str, float]
    known: bool


def complete(
    facts: HostFacts, root: Root, wall: Callable[[], float] = time.time
) -> Recorded:
    """Add the labels that the agent stored to facts.

    :param facts: facts observed below the root.
    :param root: the host's root, below which :data:`store.PATH` is read.
    :param wall: Unix time, seconds.
    """
    record = _load(root)
    if record is None or record.origin.host != facts.host:
        return Recorded(facts, (), {}, known=False)
    readings, ages_s = [], {}
    origin = service.origin(facts.host, root)
    for name, known in record.ages(origin, wall()):
        ages_s[name] = known.age_s
        stale = known.age_s > record.stale_after_s
        readings.append(merge.Reading(name, known.labels, stale))
    merged = merge.merge(facts.labels, readings)
    return Recorded(
        dataclasses.replace(facts, labels=merged.labels),
        tuple(
            _contradicted(each, record.contradicted.get(each.label, 1))
            for each in merged.contradictions
        ),
        ages_s,
        known=True,
    )


def _load(root: Root) -> store.Record | None:
    text = root.read_text(store.PATH.lstrip("/"), store.MAX_FILE)
    if isinstance(text, Unknown):
        # No agent has run here, or it stores labels elsewhere or not at all.
        return None
    try:
        return store.parse(text.encode())
    except codec.SchemaError as error:
        LOG.warning("cannot read %s: %s", store.PATH, error)
        return None


def _contradicted(found: merge.Contradiction, count: int) -> Reason:
    return reason(
        "label_contradicted",
        label=found.label,
        value=f"'{found.value}'",
        source=found.source,
        kernel="absent" if found.kernel is None else f"'{found.kernel}'",
        count=count,
    )
