# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import unittest
from unittest import mock

from sriov_rt.agent import process
from sriov_rt.cmd import agent
from sriov_rt.service import threads
from sriov_rt.vif import changed_vfs
from sriov_rt.vif import vf_counters


class CommandTest(unittest.TestCase):
    def test_it_looks_at_the_vfs_of_this_host(self):
        with (
            mock.patch.object(threads, "choose"),
            mock.patch.object(process, "serve", return_value=0) as serve,
            mock.patch.object(process, "configure"),
            mock.patch.object(vf_counters, "of_host", return_value=("vf",)),
            mock.patch.object(changed_vfs, "of_host", lambda root: (root,)),
        ):
            self.assertEqual(0, agent.main([]))
            _, count_vfs, find_changed = serve.call_args.args
            self.assertEqual(("vf",), count_vfs())
            self.assertEqual(("/",), find_changed("/"))

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
