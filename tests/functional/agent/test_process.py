# SPDX-License-Identifier: Apache-2.0

"""The agent as a process: signals and exit codes."""

import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CONFIGURATION = """
[DEFAULT]
host = rt-1
transport_url = {transport_url}
[agent]
observe_interval = 0.5
publish_traits = false
stop_timeout = {stop_timeout}
{more}
[labels]
store =
"""


#: The agent, with a fault in one of its threads.
FAULTY = """
import sys
from unittest import mock
from sriov_rt.cmd import agent
from sriov_rt.host import observer

with mock.patch.object(observer.Observer, "observe", side_effect=KeyError):
    sys.exit(agent.main(sys.argv[1:]))
"""

#: The agent, with Ctrl-C while it is put together.
INTERRUPTED = """
import os
import signal
import sys
from unittest import mock
from sriov_rt.cmd import agent
from sriov_rt.host import observer

def interrupt():
    # A shell's background jobs ignore it, and Python with them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)

with mock.patch.object(observer, "load_sources", interrupt):
    sys.exit(agent.main(sys.argv[1:]))
"""


class ProcessTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.log = self.directory / "log"

    def _start(
        self,
        transport_url="fake://",
        stop_timeout=5,
        more="",
        program=("-m", "sriov_rt.cmd.agent"),
    ):
        path = self.directory / "sriov-rt.conf"
        path.write_text(
            CONFIGURATION.format(
                transport_url=transport_url,
                stop_timeout=stop_timeout,
                more=more,
            )
        )
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    *program,
                    "--debug",
                    "--config-file",
                    str(path),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.addCleanup(self._end, process)
        return process

    def _end(self, process):
        if process.poll() is None:
            process.kill()
            process.wait()

    def _wait_for(self, text, times=1, seconds=180.0):
        deadline = time.monotonic() + seconds
        while self.log.read_text().count(text) < times:
            if time.monotonic() > deadline:
                self.fail(f"no '{text}' in the log:\n{self.log.read_text()}")
            time.sleep(0.05)

    def _stop(self, process, number=signal.SIGTERM, seconds=60.0):
        began = time.monotonic()
        process.send_signal(number)
        code = process.wait(seconds)
        return code, time.monotonic() - began

    def test_it_stops_cleanly_on_either_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name):
                process = self._start()
                self._wait_for("facts sent: host=rt-1")
                self.assertEqual(0, self._stop(process, number)[0])
                self.assertIn(
                    f"stopping on {number.name}", self.log.read_text()
                )

    def test_a_copied_configuration_ends_it_with_a_sentence(self):
        nova = self.directory / "nova.conf"
        nova.write_text("[DEFAULT]\nhost = rt-2\n")
        process = self._start(more=f"nova_config_files = {nova}")
        self.assertEqual(2, process.wait(120))
        log = self.log.read_text()
        self.assertIn("sriov-rt-agent: error: [DEFAULT] host = rt-1", log)
        self.assertIn("nova-compute of this host is rt-2", log)

    def test_ctrl_c_while_it_starts(self):
        process = self._start(program=("-c", INTERRUPTED))
        self.assertEqual(130, process.wait(120))
        log = self.log.read_text()
        self.assertNotIn("Traceback", log)
        self.assertIn("sriov-rt-agent: interrupted\n", log)

    def test_sighup_reports_again_and_goes_on(self):
        process = self._start()
        self._wait_for("facts sent: host=rt-1")
        process.send_signal(signal.SIGHUP)
        self._wait_for("facts sent: host=rt-1", times=2)
        self.assertIsNone(process.poll())
        self.assertEqual(0, self._stop(process)[0])

    def test_sigusr2_writes_a_report_and_neither_signal_ends_it(self):
        process = self._start()
        self._wait_for("facts sent: host=rt-1")
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        self._wait_for("Guru Meditation")
        self._wait_for("product = sriov-rt")
        self._wait_for("observe_interval = 0.5")
        # Looking for those can end another thread.
        self.assertNotIn("Green Threads", self.log.read_text())
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGHUP)
        self._wait_for("facts sent: host=rt-1", times=2)
        self.assertEqual(0, self._stop(process)[0])
        self.assertNotIn("Unable to run", self.log.read_text())

    def test_a_configuration_that_became_wrong_does_not_end_it(self):
        process = self._start()
        self._wait_for("facts sent: host=rt-1")
        with (self.directory / "sriov-rt.conf").open("a") as configuration:
            configuration.write("\nno option\n")
        process.send_signal(signal.SIGHUP)
        self._wait_for("the configuration was not reloaded")
        self.assertIsNone(process.poll())
        self.assertEqual(0, self._stop(process)[0])

    def test_it_starts_and_stops_while_the_message_queue_is_down(self):
        # Port 1 of the loopback: nothing listens there.
        process = self._start("rabbit://u:p@127.0.0.1:1/", stop_timeout=1)
        self._wait_for("publisher: cannot send 'facts'")
        self._wait_for("facts changed: host=rt-1")
        code, took_s = self._stop(process)
        self.assertEqual(0, code)
        self.assertLess(took_s, 30.0)

    def test_a_fault_of_its_own_ends_it_for_systemd_to_start_it_anew(self):
        process = self._start(program=("-c", FAULTY))
        self.assertEqual(1, process.wait(120))
        self.assertIn("observer: unexpected error", self.log.read_text())

    def test_a_wrong_configuration_is_said_in_a_line(self):
        for given, text in (
            ({"transport_url": "pigeon://post"}, "pigeon"),
            ({"more": "observe_interval = soon"}, "observe_interval"),
        ):
            with self.subTest(text):
                process = self._start(**given)
                self.assertEqual(2, process.wait(120))
                (line,) = [
                    line
                    for line in self.log.read_text().splitlines()
                    if line.startswith("sriov-rt-agent: error:")
                ]
                self.assertIn(text, line)
                self.assertNotIn("Traceback", self.log.read_text())
