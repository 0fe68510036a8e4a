# SPDX-License-Identifier: Apache-2.0

"""What a person sees of the demonstration."""

import io
import pathlib
import re
import sys
import tempfile
import unittest

from tests.testbed import paths
from tests.testbed import steps
from tests.testbed import terminal
from tests.testbed.screen import Screen
from tests.testbed.steps import Step

#: The demonstration, with parts in place of the cloud's.
_DEMO = """\
import os, sys
from tests.testbed import demo
os.geteuid = lambda: 0
demo._UP = ("-c", {up!r})
demo._SHOW = ("-c", {show!r})
sys.exit(demo.main([]))
"""
_BEGIN = "from tests.testbed.steps import Step; Step.{}.begin()\n"
_UP = (
    _BEGIN.format("PREPARE")
    + "import os, sys; print('a detail', file=sys.stderr)\n"
    + _BEGIN.format("START")
)
#: As virsh(1) does.
_AGENT = (
    "import os\n"
    "try: os.write(os.open('/dev/tty', os.O_RDWR), b'an agent')\n"
    "except OSError: pass\n"
)
_SHOW = (
    _AGENT
    + _BEGIN.format("EXPLAIN")
    + (
        "import os, pathlib\n"
        "log = pathlib.Path(os.environ['SRIOV_RT_STATE']) / 'log'\n"
        "(log / 'demo-result.txt').write_text('THE RESULT\\n')\n"
    )
)
#: A signal that comes just before a sleep does not end it.
_HANGS = "import time\nfor _ in range(600): time.sleep(0.1)\n"


class DemoTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.state = pathlib.Path(scratch.name)

    def demo(
        self, up: str = _UP, show: str = _SHOW, *, ctrl_c_at: str = ""
    ) -> tuple[int, str]:
        """Run it at a terminal; return its exit status and what it shows."""
        status, text = terminal.run(
            (sys.executable, "-c", _DEMO.format(up=up, show=show)),
            wait_for=ctrl_c_at,
            keys=b"\x03" if ctrl_c_at else b"",
            environment={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "PYTHONPATH": str(paths.CHECKOUT),
                "SRIOV_RT_CACHE": str(self.state / "cache"),
                "SRIOV_RT_STATE": str(self.state),
            },
        )
        return status, text.replace("\r\n", "\n")

    def log(self) -> str:
        return (self.state / "log/demo.log").read_text()

    def test_a_machine_that_is_started_again_is_on_the_screen(self) -> None:
        said = "rt-1 hangs; it is started again"
        note = f"from tests.testbed import steps; steps.note({said!r})\n"
        status, text = self.demo(up=_UP + note)
        self.assertEqual(0, status, text)
        (line,) = (each for each in text.splitlines() if said in each)
        self.assertEqual(said, line.strip())

    def test_steps_then_the_result_then_what_to_try(self) -> None:
        status, text = self.demo()
        self.assertEqual(0, status, text)
        parts = (
            "of which 2:50 to download and",
            f"Details: {self.state}/log/demo.log",
            f"1/7 {Step.PREPARE.value.title}",
            f"2/7 {Step.START.value.title}",
            f"4/7 {Step.EXPLAIN.value.title}",
            "done\n",
            "THE RESULT",
            "tools/demo inside -- openstack realtime host list\n",
            "\n  tools/demo down\n",
        )
        places = [text.find(part) for part in parts]
        self.assertEqual(sorted(places), places, text)
        self.assertNotIn(-1, places, text)

    def test_no_detail_is_on_the_screen(self) -> None:
        _, text = self.demo()
        self.assertNotIn("a detail", text)
        self.assertNotIn("an agent", text)
        self.assertIn("a detail", self.log())

    def test_a_failure_says_where_and_what_next(self) -> None:
        status, text = self.demo(
            up=_UP
            + "sys.exit('testbed: a died; its log is N' + 40 * '\\nx')\n"
        )
        self.assertEqual(1, status)
        self.assertIn("failed after", text)
        self.assertIn("testbed: a died; its log is N\nx\n", text)
        self.assertLess(text.count("\nx"), 20)
        self.assertIn("`tools/demo` tries again", text)
        self.assertNotIn("Traceback", text)

    def test_ctrl_c_before_the_cloud_is_up(self) -> None:
        status, text = self.demo(
            up=_UP + _HANGS, ctrl_c_at=Step.START.value.title
        )
        self.assertEqual(130, status)
        self.assertIn("interrupted after", text)
        self.assertIn("`tools/demo` starts again", text)
        self.assertNotIn("Traceback", text)

    def test_ctrl_c_when_the_cloud_is_up(self) -> None:
        # It is nsenter(1) that runs it, and that ends at once.
        cleans = (
            "import os, signal, sys, time\n"
            "if os.fork():\n"
            "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
            "    time.sleep(60)\n"
            "from tests.testbed.steps import Step\n"
            "try:\n"
            "    Step.BOOT.begin()\n"
            "    for _ in range(600): time.sleep(0.1)\n"
            "except KeyboardInterrupt:\n"
            "    time.sleep(1)\n"
            "    sys.exit('servers are deleted')\n"
        )
        status, text = self.demo(show=cleans, ctrl_c_at=Step.BOOT.value.title)
        self.assertEqual(130, status)
        self.assertIn("The cloud stays up", text)
        self.assertIn("`tools/demo down` takes it down", text)
        self.assertIn("servers are deleted", self.log())
        self.assertNotIn("Traceback", text)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ScreenTest(unittest.TestCase):
    def setUp(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def test_elsewhere_each_step_is_a_line_on_one_clock(self) -> None:
        stream = io.StringIO()
        screen = Screen(stream, first=100, now=self.now)
        screen.begin(Step.PREPARE)
        self.seconds = 75
        screen.tick()
        screen.begin(Step.START)
        self.seconds = 140
        screen.end()
        self.assertEqual(
            [
                f" 0:00  1/7 {Step.PREPARE.value.title}, about 1:45",
                f" 1:15  2/7 {Step.START.value.title}, about 0:45",
            ],
            stream.getvalue().splitlines(),
        )

    def test_a_terminals_line_says_how_long_it_takes(self) -> None:
        stream = _Terminal()
        screen = Screen(stream, now=self.now)
        screen.begin(Step.START)
        self.seconds = 34
        screen.tick()
        screen.end()
        first, tick, end = stream.getvalue().split("\r")[1:]
        self.assertIn("0:00 of about 0:45", first)
        self.assertIn("0:34 of about 0:45", tick)
        self.assertRegex(end, r"took 0:34\x1b\[K\n$")

    def test_each_step_fits_a_terminal(self) -> None:
        for step in Step:
            stream = _Terminal()
            screen = Screen(stream, first=999, now=self.now)
            screen.begin(step)
            (line,) = stream.getvalue().split("\r")[1:]
            line = re.sub(r"\x1b\[K$", "", line)
            with self.subTest(step):
                self.assertLess(len(line), 80)
                self.assertIn(" of about ", line)
                self.assertIs(step, steps.of_title(step.value.title))
