# SPDX-License-Identifier: Apache-2.0

"""sriov-rt host check, on a host that nobody made realtime."""

import configparser
import dataclasses
import json
import re
import sys
import unittest
from typing import Any

from tests.periodic import periodic
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import RtVm
from tests.vm import base

#: The first boot shows what is wrong, the second the interrupts that are
#: on CPUs isolated by then; the third has to be the last.
BOOTS = 3

_BOOT_REMEDY = re.compile(r"boot with ((?:[\w.]+=[^\s;]+ ?)+)")
_RUN_REMEDY = re.compile(r"run '([^']+)'")


# Boots machines of its own.
@periodic
class RemedyTest(unittest.TestCase):
    """An operator who does as told has a realtime host."""

    def test_remedies_make_an_ordinary_host_realtime(self) -> None:
        """Boot with what is asked for, run what is asked for, and pass."""
        product = base.product()
        machine = _ordinary()
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

    def test_the_fix_plan_makes_an_ordinary_host_realtime(self) -> None:
        """Boot once with what it says, apply its fragments, and pass."""
        machine = _ordinary()
        vm, verdict = self._boot(machine)
        self.assertFalse(verdict["passes"])
        plan = verdict["fix_plan"]
        self.assertEqual(plan["by_hand"], [])
        self.assertEqual(plan["kernel"]["removed"], [])
        vm.stop()
        machine = dataclasses.replace(
            machine,
            arguments=(*machine.arguments, *plan["kernel"]["arguments"]),
        )
        vm, verdict = self._boot(machine, plan)
        self.assertEqual(verdict["reasons"], [])
        # This kernel lets the threads of a NUMA node run anywhere on it.
        (advice,) = verdict["advice"]
        self.assertEqual("kcompactd0", advice["name"])
        (remedy,) = _RUN_REMEDY.findall(advice["message"])
        vm.run(("bash", "-c", remedy), timeout=base.PATIENCE)
        verdict = self._verdict(vm)
        self.assertEqual(verdict["advice"], [])
        self.assertEqual(verdict["fix_plan"]["kernel"]["removed"], [])
        self.assertEqual(
            verdict["fix_plan"]["dedicated"], plan["dedicated"], plan
        )

    def _boot(
        self, machine: Machine, plan: dict[str, Any] | None = None
    ) -> tuple[RtVm, dict[str, Any]]:
        """Return a machine with a plan applied, and what a check says."""
        vm = RtVm(base.place(), machine)
        vm.stop()
        self.addCleanup(vm.stop)
        vm.start()
        vm.wait_ready(Progress(sys.stderr).say)
        if plan is not None:
            _apply(vm, plan)
        return vm, self._verdict(vm)

    def _verdict(self, vm: RtVm) -> dict[str, Any]:
        """Return what a check says, with its plan."""
        program = base.product().program("sriov-rt")
        command = (program, "host", "check", "--fix-plan")
        shown = vm.run(command, timeout=base.PATIENCE, check=False)
        print(shown.text, file=sys.stderr)
        result = vm.run(
            (*command, "--json"), timeout=base.PATIENCE, check=False
        )
        self.assertIn(result.status, (0, 1), result.complaint)
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def _check(self, vm: RtVm, command: tuple[str, ...]) -> list[str]:
        """Return what is wrong, in sentences."""
        result = vm.run(command, timeout=base.PATIENCE, check=False)
        self.assertIn(result.status, (0, 1), result.complaint)
        verdict = json.loads(result.stdout)
        self.assertEqual(verdict["passes"], result.status == 0)
        return [each["message"] for each in verdict["reasons"]]


def _ordinary() -> Machine:
    """Describe a host with a realtime kernel that nobody made realtime."""
    return dataclasses.replace(
        Machine.ordinary("std-2", 2),
        kernel="rt-amd64",
        memory_mb=1024,
        hugepages=0,
        vfs=0,
        libvirt=False,
    )


def _apply(vm: RtVm, plan: dict[str, Any]) -> None:
    """Do what systemd-sysctl and tuned do with a plan's files at boot.

    The emulated CPUs have neither frequencies nor idle states: of a tuned
    profile there are only files to write.
    """
    for name in ("sysctl", "tuned"):
        vm.push(plan[name]["text"].encode(), plan[name]["path"])
    vm.run(("sysctl", "-p", plan["sysctl"]["path"]))
    profile = configparser.ConfigParser(delimiters="=", interpolation=None)
    profile.optionxform = str  # type: ignore[assignment,method-assign]
    profile.read_string(plan["tuned"]["text"])
    unknown = set(profile.sections()) - {"main", "sysfs"}
    if unknown:
        raise AssertionError(f"nobody applies {unknown}")
    for path, value in profile["sysfs"].items():
        exists = vm.run(("test", "-e", path), check=False).status == 0
        if exists:
            vm.push(f"{value}\n".encode(), path)


def _arguments(messages: list[str]) -> list[str]:
    """Return the kernel arguments that sentences ask for."""
    return [
        word.rstrip(",.")
        for message in messages
        for found in _BOOT_REMEDY.findall(message)
        for word in found.split()
    ]
