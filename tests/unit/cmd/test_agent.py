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


import contextlib
import io
import unittest
from unittest import mock

from sriov_rt import threads
from sriov_rt.cmd import agent


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
