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

"""sriov-rt host check, on a host that nobody made realtime."""

import dataclasses
import json
import re
import sys
import unittest

from tests.testbed.progress import Progress
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import RtVm
from tests.vm import base

#: The first boot shows what is wrong, the second the interrupts that are
#: on CPUs isolated by then; the third has to be the last.
BOOTS = 3

_BOOT_REMEDY = re.compile(r"boot with ((?:[\w.]+=[^\s;]+ ?)+)")
_RUN_REMEDY = re.compile(r"run '([^']+)'")


class RemedyTest(unittest.TestCase):
    """An operator who does as told has a realtime host."""

    def test_remedies_make_an_ordinary_host_realtime(self) -> None:
        """Boot with what is asked for, run what is asked for, and pass."""
        product = base.product()
        machine = dataclasses.replace(
            Machine.ordinary("std-2", 2),
            memory_mb=1024,
            hugepages=0,
            vfs=0,
            libvirt=False,
        )
        history: list[list[str]] = []
        for _ in range(BOOTS):
            vm = RtVm(base.place(), machine)
            vm.stop()
            self.addCleanup(vm.stop)
            vm.start()
            vm.wait_ready(Progress(sys.stderr).say)
            command = (product.program("sriov-rt"), "host", "check", "--json")
            messages = self._check(vm, command)
            history.append(messages)
            for message in messages:
                for remedy in _RUN_REMEDY.findall(message):
                    vm.run(("bash", "-c", remedy), timeout=base.PATIENCE)
            boot = _arguments(messages)
            if not boot:
                left = self._check(vm, command) if messages else []
                self.assertEqual(left, [], history)
                break
            vm.stop()
            machine = dataclasses.replace(
                machine, arguments=(*machine.arguments, *boot)
            )
        else:
            self.fail(f"not realtime after {BOOTS} boots: {history}")
        self.assertIn("no CPU is isolated", history[0][0])

    def _check(self, vm: RtVm, command: tuple[str, ...]) -> list[str]:
        """Return what is wrong, in sentences."""
        result = vm.run(command, timeout=base.PATIENCE, check=False)
        self.assertIn(result.status, (0, 1), result.complaint)
        verdict = json.loads(result.stdout)
        self.assertEqual(verdict["passes"], result.status == 0)
        return [each["message"] for each in verdict["reasons"]]


def _arguments(messages: list[str]) -> list[str]:
    """Return the kernel arguments that sentences ask for."""
    return [
        word.rstrip(",.")
        for message in messages
        for found in _BOOT_REMEDY.findall(message)
        for word in found.split()
    ]
