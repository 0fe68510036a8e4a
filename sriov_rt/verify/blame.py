# SPDX-License-Identifier: Apache-2.0

"""Culprit of a latency sample, from the output and traces of tools.

There are three sources: the auto-analysis that a newer rtla prints (6.12
does), the trace of an older one (the events of ``osnoise``), and a trace of
scheduler and interrupts beside cyclictest. Any input is accepted, up to a
limit. Each yields how long each task had the CPU; the culprit had it longest.
"""

import collections
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import NamedTuple

from sriov_rt.facts import culprit
from sriov_rt.facts.culprit import Culprit
from sriov_rt.parse.text import masked

#: The most lines of a trace that are read: the last ones.
MAX_LINES = 400_000

#: The least part of a latency for which a culprit had the CPU.
_LEAST = 0.1

#: The kernel's stopper threads, one per CPU, run the work of stop_machine()
#: at a higher priority than all other threads.
_STOPPER = re.compile(r"migration/\d+:")

#: Interrupt threads: on PREEMPT_RT nearly every interrupt has one.
_IRQ_THREAD = re.compile(r"irq/\d+-")

_IDLE = re.compile(r"(swapper/\d+|<idle>|swapper):0")

IDLE_WHY = (
    "the CPU was idle and the interrupt of its timer came late: it left an "
    "idle state, or the firmware or a hypervisor had it"
)
_NOBODY_WHY = "no thread and no interrupt had the CPU for a tenth of it"
NO_SAMPLE_WHY = "the trace does not have the sample"

#: A kind of :data:`culprit.KINDS` and a name.
Who = tuple[str, str]


class Sample(NamedTuple):
    """A sample and who had its CPU; all times are in one unit, such as ns."""

    cpu: int
    latency: float
    times: Mapping[Who, float]
    stack: tuple[str, ...] = ()


def longest(found: Sample, tool: str, per_us: float) -> Culprit:
    """Return the culprit of a sample.

    :param per_us: how many of the sample's units a µs has.
    """
    latency_us = round(found.latency / per_us)
    times = sorted(found.times.items(), key=lambda each: -each[1])
    if not times or times[0][1] < _LEAST * found.latency:
        return culprit.unknown(found.cpu, latency_us, tool, _NOBODY_WHY)
    (kind, name), time = times[0]
    if _IDLE.fullmatch(name):
        return culprit.unknown(found.cpu, latency_us, tool, IDLE_WHY)
    if kind == "thread" and _STOPPER.match(name):
        kind = "stop_machine"
    if kind == "thread" and _IRQ_THREAD.match(name):
        kind = "irq"
    return Culprit(
        kind,
        _name(name),
        found.cpu,
        latency_us,
        round(time / per_us),
        tool,
        tuple(_name(each) for each in found.stack[: culprit.MAX_STACK]),
    )


def _name(text: str) -> str:
    """Return a thread's name without control characters, cut to length."""
    return masked(text)[: culprit.MAX_NAME]


# The auto-analysis of rtla timerlat.

_HIT = re.compile(r"## CPU (\d{1,5}) hit stop tracing")
_HEAD = re.compile(
    r" {2}(IRQ handler delay|Timerlat IRQ duration|Blocking thread|"
    r"NMI interference|IRQ interference|Softirq interference|"
    r"Thread interference|IRQ latency|Thread latency|"
    r"Previous IRQ interference)\b(.*)"
)
_US = re.compile(r"(\d{1,12}\.\d{1,3}) us")
_ROW = re.compile(r"\s+(\S.*?):(\d+)\s+(?:(\d{1,12}\.\d{1,3}) us)?\s*$")
_FRAME = re.compile(r"\s+-> (\S+)")

#: Headings of the analysis, and the kind of the rows below each.
_ROWS = {
    "Blocking thread": "thread",
    "Thread interference": "thread",
    "IRQ interference": "irq",
    "Softirq interference": "softirq",
}


def of_analysis(output: bytes, tool: str) -> Culprit | None:
    """Return the culprit that rtla's auto-analysis names; None without one."""
    lines = output.decode(errors="replace").splitlines()[-MAX_LINES:]
    for number, line in enumerate(lines):
        if hit := _HIT.match(line):
            found = _analysed(int(hit[1]), lines[number + 1 :])
            return longest(found, tool, 1.0) if found.latency else None
    return None


def _analysed(cpu: int, lines: list[str]) -> Sample:
    found = _Analysis()
    for line in lines:
        found.take(line)
        if found.is_whole:
            break
    return Sample(cpu, found.total, found.charged(), tuple(found.stack))


class _Analysis:
    """Analysis of one CPU, times in µs."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.is_whole = False
        self._times: dict[Who, float] = collections.defaultdict(float)
        self._sums: dict[str, float] = {}
        self._head = self._blocking = ""
        self._from_idle = False

    @property
    def total(self) -> float:
        """The latency of the sample."""
        sums = self._sums
        return sums.get("Thread latency") or sums.get("IRQ latency", 0.0)

    def take(self, line: str) -> None:
        """Take in a line."""
        if frame := _FRAME.match(line):
            self.stack.append(frame[1])
        elif found := _HEAD.match(line):
            self._head = found[1]
            self._sums[self._head] = _us(found[2])
            self._from_idle |= "exit from idle" in found[2]
            # Only the line of the total has it.
            self.is_whole = "(100%)" in found[2]
        elif (row := _ROW.match(line)) and self._head in _ROWS:
            name = f"{row[1]}:{row[2]}"
            if self._head == "Blocking thread":
                self._blocking = name
            self._times[_ROWS[self._head], name] += float(row[3] or 0)

    def charged(self) -> Mapping[Who, float]:
        """Return who had the CPU, charged with the timer interrupt's delay."""
        times = self._times.copy()
        times["nmi", ""] += self._sums.get("NMI interference", 0.0)
        delay = self._sums.get("IRQ handler delay", 0.0)
        before = self._sums.get("Previous IRQ interference", 0.0)
        # It includes the work of other timers that expired with it.
        own = self._sums.get("Timerlat IRQ duration", 0.0)
        times["irq", "the timer's own"] += own
        if before > delay / 2:
            times["irq", "before the timer's"] += before
        elif self._from_idle or _IDLE.fullmatch(self._blocking):
            times["thread", "<idle>:0"] += delay
        elif self._blocking:
            # The blocking thread had interrupts off for that long.
            times["thread", self._blocking] += delay
        return times


def _us(text: str) -> float:
    found = _US.search(text)
    return float(found[1]) if found else 0.0


# Lines of tracefs: Documentation/trace/ftrace.rst.

_LINE = re.compile(
    r"\s*(?P<task>\S.{0,31}?)-(?P<pid>\d{1,7})\s+\[(?P<cpu>\d{1,5})\]"
    r"(?:\s+\S{4,10})?\s+(?P<at>\d{1,12}\.\d{6,9}): (?P<text>.*)"
)
_TIMERLAT = re.compile(
    r"#\d+\s+context\s+(irq|thread|user-ret)\s+timer_latency\s+(\d{1,15}) ns"
)
_NOISE = re.compile(
    r"(irq|softirq|thread|nmi)_noise:\s+(?:(.*):(\d+) )?"
    r"start (\d{1,12}\.\d{9}) duration (\d{1,15}) ns"
)
# Old kernels pad a short stack with frames of 0.
_STACK_FRAME = re.compile(r"\s*=> (?!0$)(\S+)")


class Line(NamedTuple):
    """An event of a trace; its time is in ns."""

    task: str
    pid: int
    cpu: int
    at: int
    text: str


def _lines(trace: bytes) -> list[tuple[Line, tuple[str, ...]]]:
    """Return the events of a trace, each with the stack that follows it."""
    found: list[tuple[Line, list[str]]] = []
    text = trace.decode(errors="replace").splitlines()[-MAX_LINES:]
    for each in text:
        if line := _LINE.match(each):
            task = "<idle>" if line["pid"] == "0" else line["task"]
            second, _, part = line["at"].partition(".")
            at = int(second) * 10**9 + int(part.ljust(9, "0"))
            event = Line(
                task, int(line["pid"]), int(line["cpu"]), at, line["text"]
            )
            found.append((event, []))
        elif found and (frame := _STACK_FRAME.match(each)):
            found[-1][1].append(frame[1])
    return [(line, tuple(stack)) for line, stack in found]


def of_osnoise(trace: bytes, tool: str, cpu: int, least_us: int) -> Culprit:
    """Return the culprit in the trace that rtla kept.

    :param least_us: the sample is the last one of the CPU above this.
    """
    lines = [each for each in _lines(trace) if each[0].cpu == cpu]
    found = _last_sample(lines, least_us * 1000)
    if found is None:
        return culprit.unknown(cpu, 0, tool, NO_SAMPLE_WHY)
    end, latency, irq, stack = found
    began = end - latency
    noises = [each for line, _ in lines if (each := _noise(line.text))]
    times: dict[Who, float] = collections.defaultdict(float)
    for who, start, stop in noises:
        times[who] += _shared(start, stop, began, end)
    if irq is not None and began <= irq.at:
        # A delay of the timer's interrupt that no noise explains is charged
        # to the task on the CPU, which had interrupts off.
        delay = irq.at - began
        for _, start, stop in noises:
            delay -= _shared(start, stop, began, irq.at)
        times["thread", f"{irq.task}:{irq.pid}"] += max(0, delay)
    return longest(Sample(cpu, latency, times, stack), tool, 1000.0)


def _last_sample(
    lines: Iterable[tuple[Line, tuple[str, ...]]], least_ns: int
) -> tuple[int, int, Line | None, tuple[str, ...]] | None:
    """Return a sample's time and latency, its interrupt, and a stack.

    :param least_ns: return the last sample above this.
    """
    sample: tuple[int, int] | None = None
    irq: Line | None = None
    stack: tuple[str, ...] = ()
    for line, frames in lines:
        stack = frames or stack
        if found := _TIMERLAT.search(line.text):
            if found[1] == "irq":
                irq = line
            if int(found[2]) > least_ns:
                sample = (line.at, int(found[2]))
    return None if sample is None else (*sample, irq, stack)


def _noise(text: str) -> tuple[Who, int, int] | None:
    """Return who had the CPU, and from when to when, ns."""
    if not (found := _NOISE.search(text)):
        return None
    start = int(found[4].replace(".", ""))
    name = f"{found[2].strip()}:{found[3]}" if found[2] else ""
    return (found[1], name), start, start + int(found[5])


def _shared(start: int, end: int, since: int, until: int) -> int:
    return max(0, min(end, until) - max(start, since))


# A trace beside cyclictest: the events of TRACED, by the monotonic clock.

#: Events traced beside cyclictest; one that the kernel lacks is left out.
TRACED = (
    "sched/sched_switch",
    "timer/hrtimer_start",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
    "irq_vectors/irq_work_entry",
    "irq_vectors/irq_work_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/thermal_apic_entry",
    "irq_vectors/thermal_apic_exit",
)

_SWITCH = re.compile(
    r"sched_switch: prev_comm=(.*) prev_pid=(\d+) .*==> next_comm=(.*) "
    r"next_pid=(\d+) "
)
_EXPIRES = re.compile(
    r"hrtimer_start: .*function=hrtimer_wakeup .*?"
    r"\bexpires=(\d{1,19}) "
)
_ENTRY = re.compile(
    r"(irq_handler|softirq|[a-z_]+?)_entry: (?:irq=(\d+) name=(.*)|"
    r"vec=(\d+) \[action=(\w+)\]|vector=(\d+))"
)
_EXIT = re.compile(r"([a-z_]+?)_exit: ")


def of_schedule(
    trace: bytes, tool: str, cpu: int, comm: str, latency_us: int
) -> Culprit:
    """Return the culprit in a trace of TRACED.

    :param comm: name of the measuring thread; its timer says when it was due.
    :param latency_us: latency of the sample. The worst wake-up in the trace
        stands for it, without the return to user space.
    """
    lines = [line for line, _ in _lines(trace) if line.cpu == cpu]
    due: dict[int, int] = {}
    worst: tuple[int, int] | None = None
    for line in lines:
        # Threads are matched by id: the trace may lack their names.
        if found := _EXPIRES.search(line.text):
            due[line.pid] = int(found[1])
        elif found := _SWITCH.search(line.text):
            expires = due.pop(int(found[4]), None)
            if expires is None or found[3] != comm:
                continue
            if worst is None or line.at - expires > worst[1] - worst[0]:
                worst = (expires, line.at)
    if worst is None or worst[1] - worst[0] < latency_us * 500:
        return culprit.unknown(cpu, latency_us, tool, NO_SAMPLE_WHY)
    times = _times(lines, *worst)
    found_times = {
        who: time
        for who, time in times.items()
        if not who[1].startswith(f"{comm}:")
    }
    sample = Sample(cpu, latency_us * 1000, found_times)
    return longest(sample, tool, 1000.0)


def _times(lines: list[Line], since: int, until: int) -> Mapping[Who, float]:
    """Return how long each task had the CPU, ns; the innermost counts."""
    times: dict[Who, float] = collections.defaultdict(float)
    thread: Who = ("thread", f"{lines[0].task}:{lines[0].pid}")
    inside: list[tuple[str, Who]] = []
    last = since
    for line in lines:
        if line.at > until:
            break
        who = inside[-1][1] if inside else thread
        times[who] += max(0, line.at - max(last, since))
        last = line.at
        if found := _SWITCH.search(line.text):
            name = "<idle>" if found[4] == "0" else found[3]
            thread = ("thread", f"{name}:{found[4]}")
        elif found := _ENTRY.search(line.text):
            inside.append((found[1], _interrupt(found)))
        elif found := _EXIT.search(line.text):
            while inside and inside.pop()[0] != found[1]:
                pass
    return times


def _interrupt(found: re.Match[str]) -> Who:
    if found[5] is not None:
        return "softirq", f"{found[5]}:{found[4]}"
    if found[2] is not None:
        return "irq", f"{found[3].strip()}:{found[2]}"
    return "irq", f"{found[1]}:{found[6]}"
