# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.facts import culprit
from sriov_rt.verify import blame
from tests.unit.verify import recorded

#: As the documentation of rtla-timerlat-top has it.
ANALYSIS = b"""\
rtla timerlat hit stop tracing
## CPU 23 hit stop tracing, analyzing it ##
  IRQ handler delay:                                        27.49 us (65.52 %)
  IRQ latency:                                              28.13 us
  Timerlat IRQ duration:                                     9.59 us (22.85 %)
  Blocking thread:                                           3.79 us (9.03 %)
                         objtool:49256                       3.79 us
    Blocking thread stack trace
                -> timerlat_irq
                -> __hrtimer_run_queues
                -> hrtimer_interrupt
  IRQ interference                                           1.20 us (1.00 %)
                     local_timer:236                         1.20 us
------------------------------------------------------------------------
  Thread latency:                                           41.96 us (100%)

Max timerlat IRQ latency from idle: 17.48 us in cpu 4
Saving trace to timerlat_trace.txt
"""

#: The same with other lines for the delay and what follows it.
FRAME = b"""\
## CPU 2 hit stop tracing, analyzing it ##
%s
------------------------------------------------------------------------
  Thread latency:                                          100.00 us (100%%)
"""

SCHEDULE = b"""\
# tracer: nop
#
      cyclictest-77      [002] d..2.   100.000000: hrtimer_start: \
hrtimer=0000000012345678 function=hrtimer_wakeup expires=100000200000 \
softexpires=100000200000 mode=ABS
      cyclictest-77      [002] d..2.   100.000001: sched_switch: \
prev_comm=cyclictest prev_pid=77 prev_prio=4 prev_state=S ==> \
next_comm=%(who)s next_pid=%(pid)s next_prio=1
%(more)s\
%(task)15s-%(pid)s      [002] d..2.   100.000700: sched_switch: \
prev_comm=%(who)s prev_pid=%(pid)s prev_prio=1 prev_state=R ==> \
next_comm=cyclictest next_pid=77 next_prio=4
      cyclictest-77      [003] d..2.   100.000800: sched_switch: \
prev_comm=cyclictest prev_pid=77 prev_prio=4 prev_state=S ==> \
next_comm=other next_pid=5 next_prio=1
"""

INTERRUPT = b"""\
 hog-9      [002] d.h..   100.000250: irq_handler_entry: irq=54 name=eth0-rx-0
 hog-9      [002] d.h..   100.000650: irq_handler_exit: irq=54 ret=handled
"""

TIMER = b"""\
 hog-9      [002] d.h..   100.000250: local_timer_entry: vector=236
 hog-9      [002] d.h..   100.000650: local_timer_exit: vector=236
"""


def schedule(who=b"hog", pid=b"9", more=b"", task=b""):
    values = {b"who": who, b"pid": pid, b"more": more, b"task": task or who}
    trace = SCHEDULE % values
    return blame.of_schedule(trace, "cyclictest", 2, "cyclictest", 505)


class AnalysisTest(unittest.TestCase):
    def test_a_thread_that_kept_interrupts_off(self):
        found = blame.of_analysis(ANALYSIS, "timerlat")
        self.assertEqual(
            ("thread", "objtool:49256", 23, 42, 31),
            (
                found.kind,
                found.name,
                found.cpu,
                found.latency_us,
                found.duration_us,
            ),
        )
        self.assertEqual(
            ("timerlat_irq", "__hrtimer_run_queues", "hrtimer_interrupt"),
            found.stack,
        )
        self.assertEqual(
            "thread objtool:49256 had the CPU for 31 µs (timerlat)",
            found.sentence,
        )

    def test_each_kind(self):
        for lines, kind, name in (
            (
                b"  IRQ interference   80.00 us (80.00 %)\n"
                b"\t       local_timer:236   50.00 us\n"
                b"\t       local_timer:236   30.00 us\n",
                "irq",
                "local_timer:236",
            ),
            (
                b"  Softirq interference   80.00 us (80.00 %)\n"
                b"\t       NET_RX:3     80.00 us\n",
                "softirq",
                "NET_RX:3",
            ),
            (
                b"  Thread interference   80.00 us (80.00 %)\n"
                b"\t       migration/2:21   80.00 us\n",
                "stop_machine",
                "migration/2:21",
            ),
            (b"  NMI interference   80.00 us (80.00 %)\n", "nmi", ""),
            (
                b"  Previous IRQ interference:\t up to  70.00 us\n"
                b"  IRQ handler delay:\t 80.00 us (80.00 %)\n",
                "irq",
                "before the timer's",
            ),
            (
                b"  IRQ handler delay: (exit from idle) 80.00 us (80.00 %)\n"
                b"  Blocking thread:   0.00 us (0.00 %)\n"
                b"\t         swapper/2:0    0.00 us\n",
                "unknown",
                "",
            ),
            (b"  IRQ latency:   5.00 us\n", "unknown", ""),
        ):
            with self.subTest(kind=kind, name=name):
                found = blame.of_analysis(FRAME % lines, "timerlat")
                self.assertEqual((kind, name), (found.kind, found.name))
                self.assertEqual(100, found.latency_us)

    def test_idle_says_why_nothing_is_named(self):
        lines = b"  IRQ handler delay: (exit from idle)  80.00 us (80.00 %)\n"
        found = blame.of_analysis(FRAME % lines, "timerlat")
        self.assertIn("nothing can be named: the CPU was idle", found.sentence)

    def test_no_analysis(self):
        for output in (b"", b"\xff\n## CPU x hit\n", ANALYSIS[:60]):
            self.assertIsNone(blame.of_analysis(output, "timerlat"))

    def test_a_name_that_steers_a_terminal(self):
        lines = (
            b"  Thread interference   80.00 us (80.00 %)\n"
            b"\t    \x1b[2Jevil:7   80.00 us\n"
        )
        found = blame.of_analysis(FRAME % lines, "timerlat")
        self.assertEqual("?[2Jevil:7", found.name)


class ScheduleTest(unittest.TestCase):
    def test_a_thread(self):
        found = schedule()
        self.assertEqual(
            ("thread", "hog:9", 505, 500),
            (found.kind, found.name, found.latency_us, found.duration_us),
        )

    def test_a_trace_that_lacks_the_names_of_threads(self):
        trace = SCHEDULE.replace(b"   cyclictest-77", b"   <...>-77") % {
            b"who": b"hog",
            b"pid": b"9",
            b"more": b"",
            b"task": b"hog",
        }
        found = blame.of_schedule(trace, "cyclictest", 2, "cyclictest", 505)
        self.assertEqual("hog:9", found.name)

    def test_an_interrupt_in_a_thread(self):
        for lines, name in (
            (INTERRUPT, "eth0-rx-0:54"),
            (TIMER, "local_timer:236"),
        ):
            found = schedule(more=lines)
            self.assertEqual(
                ("irq", name, 400),
                (found.kind, found.name, found.duration_us),
            )

    def test_the_stopper_and_an_idle_cpu(self):
        found = schedule(b"migration/2", b"21")
        self.assertEqual("stop_machine", found.kind)
        found = schedule(b"swapper/2", b"0", task=b"<idle>")
        self.assertEqual(
            (culprit.UNKNOWN, blame.IDLE_WHY), (found.kind, found.why)
        )

    def test_a_trace_without_the_sample(self):
        for trace in (b"", b"\xff\x00 [002]\n" * 9, SCHEDULE[:200]):
            found = blame.of_schedule(trace, "cyclictest", 2, "cyclictest", 9)
            self.assertEqual(culprit.UNKNOWN, found.kind)
            self.assertIn("does not have the sample", found.why)


class OsnoiseTest(unittest.TestCase):
    TRACE = (
        b"# tracer: timerlat\n"
        b"          <idle>-0       [002] d.h1.   120.000010: #4 context    "
        b"irq timer_latency      10000 ns\n"
        b"             hog-9       [002] d..2.   120.090100: thread_noise:"
        b"      hog:9 start 120.000015000 duration 90000000 ns\n"
        b"       timerlat/2-50     [002] .....   120.090200: #4 context "
        b"thread timer_latency   90200000 ns\n"
        b"       timerlat/2-50     [002] .....   120.090201: <stack trace>\n"
        b" => timerlat_irq\n => __hrtimer_run_queues\n"
    )

    def test_a_thread(self):
        found = blame.of_osnoise(self.TRACE, "timerlat", 2, 1000)
        self.assertEqual(
            ("thread", "hog:9", 90200, 90000),
            (found.kind, found.name, found.latency_us, found.duration_us),
        )
        self.assertEqual(("timerlat_irq", "__hrtimer_run_queues"), found.stack)

    def test_a_late_interrupt_of_an_idle_cpu(self):
        trace = (
            b"   <idle>-0  [002] d.h1.   120.090000: #4 context irq "
            b"timer_latency 90000000 ns\n"
            b"   timerlat/2-50 [002] .....  120.090100: #4 context thread "
            b"timer_latency 90100000 ns\n"
        )
        found = blame.of_osnoise(trace, "timerlat", 2, 1000)
        self.assertEqual(
            (culprit.UNKNOWN, blame.IDLE_WHY), (found.kind, found.why)
        )

    def test_a_late_interrupt_of_a_thread(self):
        trace = (
            b"   kworker/2:1-97  [002] d.h1.   120.090000: #4 context irq "
            b"timer_latency 90000000 ns\n"
            b"   timerlat/2-50 [002] .....  120.090100: #4 context thread "
            b"timer_latency 90100000 ns\n"
        )
        found = blame.of_osnoise(trace, "timerlat", 2, 1000)
        self.assertEqual(
            ("thread", "kworker/2:1:97"), (found.kind, found.name)
        )

    def test_a_trace_without_the_sample(self):
        for trace in (b"", b"\x00\xff", self.TRACE[:90]):
            found = blame.of_osnoise(trace, "timerlat", 2, 1000)
            self.assertEqual(culprit.UNKNOWN, found.kind)


class RecordedTest(unittest.TestCase):
    """Of culprits that were planted on the RT VM, by the real rtla.

    Of 6.12 the analysis; of 6.1 the end of its trace. The timers were 3,000 of
    realtime threads, which expire in one interrupt.
    """

    def test_each_is_named(self):
        for name, kind, known in (
            ("work", "thread", "kpktgend_2:1006"),
            ("interrupt", "irq", "irq/36-enp1s0-T:226"),
            ("stop-machine", "stop_machine", "migration/2:36"),
            ("timers", "irq", "the timer's own"),
            ("stall", culprit.UNKNOWN, ""),
        ):
            for version, found in self.each(name):
                with self.subTest(name, version=version):
                    self.assertEqual((kind, known), (found.kind, found.name))
                    self.assertNotIn("0", found.stack)
                    if kind == culprit.UNKNOWN:
                        self.assertEqual(blame.IDLE_WHY, found.why)
                    else:
                        self.assertEqual("timerlat_irq", found.stack[0])
                        self.assertGreater(
                            found.duration_us, found.latency_us * 0.9
                        )

    def each(self, name):
        if name != "interrupt":
            text = recorded.read(f"culprit-{name}-6.12.txt")
            yield "6.12", blame.of_analysis(text, "timerlat")
        if name != "timers":
            text = recorded.read(f"culprit-{name}-6.1.txt")
            yield "6.1", blame.of_osnoise(text, "timerlat", 2, 15_000)
