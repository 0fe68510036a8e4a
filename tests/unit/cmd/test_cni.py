# SPDX-License-Identifier: Apache-2.0

"""The program that a runtime calls: JSON out, whatever goes in."""

import json
import os
import subprocess
import sys
import unittest
from unittest import mock

from sriov_rt.cmd import cni as program
from sriov_rt.cni import vf_baseline
from sriov_rt.nic.tenancy import Kind
from tests.unit.cni.test_protocol import CONFIGURATION
from tests.unit.cni.test_protocol import ENVIRONMENT
from tests.unit.nic import fakes


class RunTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.kernel = fakes.FakeKernel("ixgbe")
        self.baseline = vf_baseline.Baseline(
            self.kernel.tenancies,
            lambda: fakes.vfs(self.kernel, kind=Kind.POD),
        )

    def run_it(self, command, configuration=CONFIGURATION):
        return program.run(
            self.baseline,
            {**ENVIRONMENT, "CNI_COMMAND": command},
            json.dumps(configuration).encode(),
        )

    def test_the_answers(self):
        self.assertEqual(
            (0, {"cniVersion": "1.1.0", "interfaces": [], "ips": []}),
            self.run_it("ADD"),
        )
        for command in ("CHECK", "STATUS", "DEL"):
            self.assertEqual((0, None), self.run_it(command))
        code, answer = self.run_it("CHECK")
        self.assertEqual(1, code)
        self.assertEqual(102, answer["code"])

    def test_a_fault_of_ours_is_an_answer_as_well(self):
        with mock.patch.object(self.kernel, "pf", side_effect=KeyError("x")):
            code, answer = self.run_it("ADD")
        self.assertEqual(1, code)
        self.assertIn("KeyError", answer["msg"])

    def test_the_program_says_which_versions_it_has(self):
        found = subprocess.run(
            [sys.executable, "-m", "sriov_rt.cmd.cni"],
            input=b'{"cniVersion": "0.4.0"}',
            env={**os.environ, "CNI_COMMAND": "VERSION"},
            capture_output=True,
            check=True,
        )
        answer = json.loads(found.stdout)
        self.assertEqual("0.4.0", answer["cniVersion"])
        self.assertIn("1.1.0", answer["supportedVersions"])

    def test_what_finds_nothing_to_do_imports_nothing_that_is_slow(self):
        code = (
            "import sys; from sriov_rt.cmd import cni; "
            "print(*sorted(sys.modules))"
        )
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True
        )
        loaded = found.stdout.decode().split()
        for slow in ("pyroute2", "oslo_config", "cliff", "kubernetes"):
            self.assertNotIn(slow, loaded)
