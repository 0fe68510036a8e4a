# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Command lines of sriov-rt verify that can't be measured with."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.verify import errors
from sriov_rt.verify import results


class BadInputTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )

    def run_it(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = main.main(["verify", *map(str, arguments)])
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def refused(self, problem, *arguments):
        code, _, err = self.run_it(*arguments)
        self.assertEqual(2, code)
        self.assertIn(problem, err)
        self.assertNotIn("Traceback", err)

    def test_sizes_and_numbers(self):
        for option, value in (
            ("--size", "x"),
            ("--size", "0g"),
            ("--size", "-1g"),
            ("--size", "9" * 99 + "t"),
            ("--clients", "0"),
            ("--clients", "9" * 99),
            ("--duration", "0s"),
        ):
            with self.subTest(option=option, value=value):
                self.refused(option, "disk", self.place, f"{option}={value}")

    def test_ends(self):
        self.refused("specify --to", "network")
        self.refused(
            "--server-namespace needs --namespace",
            *("network", "--to", "127.0.0.1", "--server-namespace", "b"),
        )
        self.refused(
            "--packets needs --server-namespace",
            *("network", "--to", "127.0.0.1", "--packets", "a", "b"),
        )
        for option, value in (
            ("--streams", "0"),
            ("--streams", "65"),
            ("--port", "65000"),
            ("--name", "../x"),
            ("--namespace", "a/b"),
        ):
            with self.subTest(option=option, value=value):
                self.refused(option, "network", f"{option}={value}")

    def test_tools_that_are_missing(self):
        with mock.patch("shutil.which", return_value=None):
            self.refused("install fio util-linux", "disk", self.place / "x")
            self.refused(
                "install iperf3 sockperf", "network", "--to", "127.0.0.1"
            )
            self.refused("install rtla", "watch", "--once")

    def test_two_at_once(self):
        with (
            mock.patch.object(
                results, "exclusive", side_effect=errors.Busy("/run/lock/x")
            ),
            mock.patch("shutil.which", return_value="/bin/true"),
        ):
            self.refused(
                "another measurement holds /run/lock/x",
                *("disk", self.place / "x", "--size", "1m"),
            )
        self.assertFalse((self.place / "x").exists())
