# SPDX-License-Identifier: Apache-2.0

"""Culprit of a latency: what used the CPU while a sample waited for it."""

import dataclasses

#: Kinds of culprits, and their names in a sentence.
KINDS = {
    "thread": "thread",
    "stop_machine": "stop_machine by",
    "irq": "interrupt",
    "softirq": "softirq",
    "nmi": "NMI",
    "firmware": "firmware (SMI) or hypervisor",
    "unknown": "",
}

UNKNOWN = "unknown"

#: The most frames of a stack, and characters of a name, that are kept.
MAX_STACK = 16
MAX_NAME = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Culprit:
    """Culprit of one sample.

    :param kind: a key of :data:`KINDS`.
    :param name: such as ``kworker/2:1:97`` or ``eth0-rx-0:54``; empty where
        there is none.
    :param cpu: the CPU of the sample.
    :param latency_us: the sample's latency.
    :param duration_us: how long the culprit used the CPU; 0 if that is not
        known.
    :param stack: the kernel functions that the CPU was in, innermost first.
    :param tool: the tool that found the culprit.
    :param why: for the kind ``unknown``: why no culprit can be named, one
        clause.
    """

    kind: str
    name: str
    cpu: int
    latency_us: int
    duration_us: int
    tool: str
    stack: tuple[str, ...] = ()
    why: str = ""

    @property
    def sentence(self) -> str:
        """The culprit as a clause, for people."""
        if self.kind == UNKNOWN:
            return f"nothing can be named: {self.why}"
        who = " ".join(filter(None, (KINDS.get(self.kind), self.name)))
        took = f" for {self.duration_us} µs" if self.duration_us else ""
        return f"{who} had the CPU{took} ({self.tool})"

    @property
    def of_sample(self) -> str:
        """The culprit as a clause, with its sample."""
        return f"CPU {self.cpu}, {self.latency_us} µs: {self.sentence}"


def unknown(cpu: int, latency_us: int, tool: str, why: str) -> Culprit:
    """Return a culprit that cannot be named.

    :param why: why not, one clause.
    """
    return Culprit(UNKNOWN, "", cpu, latency_us, 0, tool, why=why)
