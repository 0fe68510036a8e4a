# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import unittest
from unittest import mock

from sriov_rt.cmd import agent
from sriov_rt.service import threads


class CommandTest(unittest.TestCase):
    def test_ctrl_c_while_it_is_imported(self):
        said = io.StringIO()
        real = __import__

        def interrupt(module, *args, **kwargs):
            if module == "sriov_rt.agent":
                raise KeyboardInterrupt
            return real(module, *args, **kwargs)

        with (
            mock.patch.object(threads, "choose"),
            mock.patch("builtins.__import__", interrupt),
            contextlib.redirect_stderr(said),
        ):
            self.assertEqual(130, agent.main([]))
        self.assertEqual("sriov-rt-agent: interrupted\n", said.getvalue())
