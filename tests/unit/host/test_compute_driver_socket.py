# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from sriov_rt import decide
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import decisive
from sriov_rt.host import compute
from sriov_rt.host import compute_driver_socket
from sriov_rt.host.compute_driver_socket import Driver
from sriov_rt.host.root import Root
from tests.unit import builders

_HERE = Root("/")
#: Its own in each process: tests run side by side.
_HOST = f"rt-1.of-{os.getpid()}"
_BIND = f"""
from sriov_rt.host import compute_driver_socket
driver = compute_driver_socket.Driver("2.3.4", "lxc")
bound = compute_driver_socket.bind({_HOST!r}, driver)
print("bound", flush=True)
input()
"""


class SocketTest(unittest.TestCase):
    """By the kernel of this machine."""

    def test_it_ends_with_its_process(self):
        self.assertIsNone(compute_driver_socket.observe(_HERE, _HOST))
        with subprocess.Popen(
            (sys.executable, "-c", _BIND),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            self.assertEqual("bound\n", child.stdout.readline())
            self.assertEqual(
                Driver("2.3.4", "lxc"),
                compute_driver_socket.observe(_HERE, _HOST),
            )
            self.assertIsNone(
                compute_driver_socket.observe(_HERE, f"not-{_HOST}")
            )
            child.kill()
        self.assertIsNone(compute_driver_socket.observe(_HERE, _HOST))

    def test_one_that_starts_before_the_last_has_ended(self):
        with subprocess.Popen(
            (sys.executable, "-c", _BIND),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            child.stdout.readline()
            with compute_driver_socket.bind(_HOST, Driver("2.3.5", "kvm")):
                child.kill()
                child.wait()
                self.assertEqual(
                    Driver("2.3.5", "kvm"),
                    compute_driver_socket.observe(_HERE, _HOST),
                )

    def test_a_long_name_and_version(self):
        long = Driver("1" * 255, "parallels")
        with compute_driver_socket.bind("h" * 255, long):
            found = compute_driver_socket.observe(_HERE, "h" * 255)
        self.assertEqual(Driver("1" * 40, "parallels"), found)

    def test_one_that_runs_as_another_host_is_seen(self):
        other = f"not-{_HOST}"
        with compute_driver_socket.bind(other, Driver("1.0", "kvm")):
            self.assertIsNone(compute_driver_socket.observe(_HERE, _HOST))
            self.assertTrue(
                compute_driver_socket.has_other_names(_HERE, _HOST)
            )


class ObserveTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def _observe(self) -> ComputeFacts:
        return compute.observe(Root(str(self.root)), host="rt-1")

    def _write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_below_the_root_of_a_container_it_is_inits(self):
        line = (
            "0: 2 0 0 2 1 9 @"
            + compute_driver_socket.prefix("rt-1")
            + "1.0/kvm/77\n"
        )
        self._write("proc/1/net/unix", "Num Path\n" + line)
        self.assertEqual("1.0", self._observe().driver)
        self._write("proc/1/net/unix", "Num Path\n")
        self.assertIsNone(self._observe().driver)

    def test_what_cannot_be_read_is_unknown(self):
        self.assertIsInstance(self._observe().driver, Unknown)

    def test_without_a_name_it_is_not_told(self):
        found = compute.observe(Root(str(self.root)))
        self.assertEqual(NOT_REPORTED, found.driver)


class DecisionTest(unittest.TestCase):
    def _codes(self, specs, driver) -> list[str]:
        facts = builders.realtime_host(compute={"driver": driver})
        asked = request.parse({"hw:cpu_policy": "dedicated", **specs})
        view = decide.View(now=0.0)
        return [
            each.code for each in decide.why_not(asked, decisive(facts), view)
        ]

    def test_flavors_that_need_it_are_kept_off(self):
        for specs in (
            {"sriov_rt:realtime": "required"},
            {"sriov_rt:guest": "lean"},
            {"sriov_rt:guest": "bare"},
            {"sriov_rt:vif": "macvlan"},
            {"sriov_rt:emulator_sched": "fifo:1"},
        ):
            with self.subTest(specs):
                self.assertIn(
                    "compute_driver_missing", self._codes(specs, None)
                )
                for driver in ("1.0", NOT_REPORTED):
                    self.assertNotIn(
                        "compute_driver_missing", self._codes(specs, driver)
                    )
                unread = Unknown("/proc/net/unix: EACCES")
                self.assertIn("fact_unknown", self._codes(specs, unread))

    def test_what_is_the_hosts_alone_does_not_need_it(self):
        for specs in (
            {"sriov_rt:kernel": "preempt_rt"},
            {"sriov_rt:guest": "standard"},
            {"sriov_rt:node_selector": "!gone"},
        ):
            self.assertEqual([], self._codes(specs, None))

    def test_without_nova_there_is_none_to_miss(self):
        facts = builders.realtime_host(compute={"driver": None})
        asked = request.parse({"sriov_rt:realtime": "required"})
        view = decide.View(now=0.0, placed_by_nova=False)
        self.assertEqual((), decide.why_not(asked, decisive(facts), view))
