# SPDX-License-Identifier: Apache-2.0

"""Culprit of a latency: what had the CPU while a sample waited for it."""

import dataclasses

#: What a culprit may be, to its name in a sentence.
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
    :param cpu: whose sample it is.
    :param latency_us: of the sample.
    :param duration_us: how long it had the CPU meanwhile; 0 if that is not
        known.
    :param stack: the kernel's functions that the CPU was in, innermost first.
    :param tool: that found it.
    :param why: of the kind ``unknown``: why nothing can be named, one clause.
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
        """Return it in a clause, for people."""
        if self.kind == UNKNOWN:
            return f"nothing can be named: {self.why}"
        who = " ".join(filter(None, (KINDS.get(self.kind), self.name)))
        took = f" for {self.duration_us} µs" if self.duration_us else ""
        return f"{who} had the CPU{took} ({self.tool})"

    @property
    def of_sample(self) -> str:
        """Return it with its sample."""
        return f"CPU {self.cpu}, {self.latency_us} µs: {self.sentence}"


def unknown(cpu: int, latency_us: int, tool: str, why: str) -> Culprit:
    """Return that nothing can be named.

    :param why: one clause.
    """
    return Culprit(UNKNOWN, "", cpu, latency_us, 0, tool, why=why)
