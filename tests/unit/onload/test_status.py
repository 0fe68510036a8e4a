# SPDX-License-Identifier: Apache-2.0

"""Asked, injected or accelerated is told from /proc, and never more."""

import pathlib
import tempfile
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.onload import status
from sriov_rt.onload.status import Driver
from sriov_rt.onload.status import Process
from sriov_rt.onload.status import State
from tests.unit.onload import elves
from tests.unit.parse.properties import deterministic

LIBRARY = "/opt/sriov-rt/onload/libonload.so"
MAPS = (
    "55d0c0a00000-55d0c0a01000 r--p 00000000 fe:01 131090  /usr/bin/a\n"
    f"7f1c2a000000-7f1c2a021000 r-xp 00001000 fe:01 131091     {LIBRARY}\n"
    "7ffd0e5c0000-7ffd0e5e1000 rw-p 00000000 00:00 0          [stack]\n"
)
ENVIRON = (
    b"PATH=/bin\0LD_PRELOAD=/x/libother.so:" + LIBRARY.encode() + b"\0"
    b"EF_POLL_USEC=100000\0EF_POLL_USEC=1\0HOME=/\0"
)
NO_DRIVER = Driver(is_loaded=False, stacks=Unknown("no file"))


def process(pid=7, **changes):
    given = {
        "name": "a",
        "variables": status.variables(ENVIRON),
        "library": LIBRARY,
    }
    return Process(pid, **{**given, **changes})


class TextTest(unittest.TestCase):
    def test_variables(self):
        self.assertEqual(
            {
                "LD_PRELOAD": f"/x/libother.so:{LIBRARY}",
                "EF_POLL_USEC": "100000",
            },
            dict(status.variables(ENVIRON)),
        )

    def test_mapped(self):
        self.assertEqual(LIBRARY, status.mapped(MAPS.encode()))
        gone = MAPS.replace(LIBRARY, LIBRARY + " (deleted)")
        self.assertEqual(LIBRARY, status.mapped(gone.encode()))
        for other in (
            "/tmp/notlibonload.so",
            "/tmp/libonload.so.txt",
            "/tmp/libonload.so/x",
            "[libonload.so]",
            "/tmp/a\\012/libonload.so.9 x",
        ):
            with self.subTest(other=other):
                changed = MAPS.replace(LIBRARY, other).encode()
                self.assertIsNone(status.mapped(changed))

    def test_stacks(self):
        text = "0: 7 0 1 2 3\n1: 7 0 1 2 3\n2: 9 1000 0 0 0\nrubbish\n: 3 \n"
        self.assertEqual({7: 2, 9: 1}, dict(status.stacks(text)))

    @deterministic
    @hypothesis.given(st.binary(max_size=200))
    def test_total(self, data):
        status.variables(data)
        status.mapped(b"libonload.so" + data)
        status.mapped(data + b"/libonload.so\n")
        status.stacks(data.decode("latin-1"))


class JudgeTest(unittest.TestCase):
    def test_a_process_without_onload(self):
        self.assertIsNone(
            status.judge(process(variables={}, library=None), NO_DRIVER)
        )

    def test_asked(self):
        found = status.judge(process(library=None), NO_DRIVER)
        self.assertEqual(State.REQUESTED, found.state)
        self.assertEqual(
            "requested, not injected: its library is not mapped",
            found.sentence,
        )
        why = "the program is linked statically"
        found = status.judge(process(library=None, why_not=why), NO_DRIVER)
        self.assertEqual(f"requested, not injected: {why}", found.sentence)

    def test_injected_without_a_module(self):
        found = status.judge(process(), NO_DRIVER)
        self.assertEqual(State.INJECTED, found.state)
        self.assertEqual(
            "injected, not accelerated: no onload module", found.sentence
        )

    def test_stacks_without_a_module_are_none(self):
        found = status.judge(process(), Driver(False, {7: 3}))
        self.assertEqual(State.INJECTED, found.state)

    def test_injected_and_nothing_more_is_known(self):
        for driver, told in (
            (Driver(Unknown("why"), {7: 1}), "unknown (why)"),
            (Driver(True, Unknown("why")), "unknown (why)"),
            (Driver(True, {8: 1}), "counts no stack"),
        ):
            with self.subTest(driver=driver):
                found = status.judge(process(), driver)
                self.assertEqual(State.INJECTED, found.state)
                self.assertIn("not accelerated", found.sentence)
                self.assertIn(told, found.sentence)

    def test_accelerated(self):
        found = status.judge(process(), Driver(True, {7: 2}))
        self.assertEqual(State.ACCELERATED, found.state)
        self.assertIn("2 of its stacks", found.sentence)

    def test_a_library_that_was_loaded_without_being_asked_for(self):
        found = status.judge(process(variables={}), NO_DRIVER)
        self.assertEqual(State.INJECTED, found.state)

    def test_a_stand_in_is_called_so(self):
        found = status.judge(
            process(soname="libonload-stand-in.so"), NO_DRIVER
        )
        self.assertTrue(found.is_stand_in)
        self.assertIn("stand-in", found.sentence)
        self.assertFalse(status.judge(process(), NO_DRIVER).is_stand_in)


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)
        self.add(7, maps=MAPS, environ=ENVIRON)
        self.add(2, maps="", environ=b"")
        self.write("proc/self/comm", "x")

    def write(self, name, data):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def add(self, pid, **files):
        self.write(f"proc/{pid}/comm", "a b\n")
        for name, data in files.items():
            self.write(f"proc/{pid}/{name}", data)

    def found(self):
        self.every = status.Processes(Root(str(self.path)))
        return list(self.every)

    def test_what_a_process_has(self):
        library = elves.Built(soname="libonload-stand-in.so").bytes()
        self.write(f"proc/7/root{LIBRARY}", library)
        (found,) = self.found()
        self.assertEqual(
            (7, "a b", LIBRARY), (found.pid, found.name, found.library)
        )
        self.assertEqual("libonload-stand-in.so", found.soname)
        self.assertTrue(found.is_requested)
        self.assertEqual(0, self.every.unreadable)

    def test_programs_that_no_preload_reaches(self):
        for built, told in (
            (elves.STATIC, "the program is linked statically"),
            (elves.MUSL, "the program uses musl (ld-musl-x86_64.so.1)"),
            (elves.INIT, None),
        ):
            with self.subTest(told=told):
                maps = MAPS.replace(LIBRARY, "/x")
                self.add(7, maps=maps, exe=built.bytes())
                (found,) = self.found()
                self.assertEqual(told, found.why_not)

    def test_processes_that_are_gone_or_others(self):
        (self.path / "proc/7/environ").unlink()
        self.assertEqual([], self.found())
        self.assertEqual(0, self.every.unreadable)
        (self.path / "proc/7/environ").mkdir()
        self.assertEqual([], self.found())
        self.assertEqual(1, self.every.unreadable)

    def test_a_process_that_goes_while_it_is_read(self):
        for error, unreadable in (
            (ProcessLookupError(), 0),
            (PermissionError(), 2),
        ):
            file = mock.MagicMock()
            file.read.side_effect = error
            with (
                self.subTest(error=error),
                mock.patch.object(Root, "open_file", return_value=file),
            ):
                self.assertEqual([], self.found())
                self.assertEqual(unreadable, self.every.unreadable)

    def test_a_library_that_cannot_be_read_has_no_soname(self):
        (found,) = self.found()
        self.assertIsNone(found.soname)

    def test_a_program_that_cannot_be_read_tells_no_reason(self):
        self.add(7, maps=MAPS.replace(LIBRARY, "/x"))
        (found,) = self.found()
        self.assertIsNone(found.why_not)

    def test_no_proc(self):
        self.assertEqual(
            [], list(status.Processes(Root(str(self.path / "none"))))
        )

    def test_the_driver(self):
        root = Root(str(self.path))
        self.assertFalse(status.driver(root).is_loaded)
        self.assertIsInstance(status.driver(root).stacks, Unknown)
        self.write("sys/module/onload/version", "9.2")
        self.write("proc/driver/onload/stacks_ul", "0: 7 0 1\n")
        self.assertEqual(Driver(True, {7: 1}), status.driver(root))
