# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import unittest
from unittest import mock

from sriov_rt.neutron import agent
from sriov_rt.service import threads
from tests.unit import imports


class CommandTest(unittest.TestCase):
    def run_without(self, name):
        said = io.StringIO()
        error = ModuleNotFoundError(f"No module named '{name}'", name=name)
        real = __import__

        def fail(module, *args, **kwargs):
            if module == "sriov_rt.neutron" and args[2:3] == (("process",),):
                raise error
            return real(module, *args, **kwargs)

        with (
            imports.replaced("sriov_rt.neutron.process", None),
            mock.patch.object(threads, "choose"),
            mock.patch("builtins.__import__", fail),
            contextlib.redirect_stderr(said),
        ):
            return agent.main([]), said.getvalue()

    def test_without_neutron(self):
        for name in ("neutron", "neutron.common", "neutron_lib"):
            code, said = self.run_without(name)
            self.assertEqual(2, code)
            self.assertIn(f"{name} is not installed; install neutron", said)
            self.assertEqual(1, said.count("\n"))

    def test_ctrl_c_while_it_starts(self):
        process = mock.Mock()
        process.main.side_effect = KeyboardInterrupt
        said = io.StringIO()
        with (
            imports.replaced("sriov_rt.neutron.process", process),
            mock.patch.object(threads, "choose"),
            contextlib.redirect_stderr(said),
        ):
            self.assertEqual(130, agent.main([]))
        self.assertEqual(
            "sriov-rt-neutron-agent: interrupted\n", said.getvalue()
        )

    def test_a_fault_of_ours_is_not_hidden(self):
        with self.assertRaises(ModuleNotFoundError):
            self.run_without("sriov_rt.neutron.gone")
