# SPDX-License-Identifier: Apache-2.0

import os
import unittest
from unittest import mock

from sriov_rt.facts.guests import GuestThread
from sriov_rt.facts.guests import Schedule
from sriov_rt.guest import thread_plan
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from tests.unit.agent import test_audit

FIFO = Schedule("fifo", 1)


class PlanTest(unittest.TestCase):
    def plan(self, *fields):
        return thread_plan.plan([GuestThread("vcpu 0", 7, *fields)])

    def test_a_thread_as_promised(self):
        self.assertEqual((), self.plan(cpus("2"), FIFO, cpus("2"), FIFO))
        self.assertEqual((), self.plan(cpus("2"), FIFO))

    def test_what_differs_alone_is_changed(self):
        (step,) = self.plan(cpus("0"), FIFO, cpus("2"), FIFO)
        self.assertEqual((cpus("2"), None), (step.cpus, step.schedule))
        (step,) = self.plan(cpus("2"), Schedule("other"), cpus("2"), FIFO)
        self.assertEqual((None, FIFO), (step.cpus, step.schedule))
        self.assertEqual(("7", "vcpu 0", "", "fifo 1"), step.row())


class RealRepinTest(test_audit.ProcessTestCase):
    """A real process that was moved comes back."""

    def repin(self):
        root = test_audit.Machine(str(self.path))
        guest = thread_plan.find(root, test_audit.UUID)
        steps = thread_plan.plan(thread_plan.observe(root, guest))
        thread_plan.apply(root, guest, steps)
        return steps

    def test_it_is_brought_back(self):
        self.codes()
        os.sched_setaffinity(self.process.pid, self.cpus)
        (step,) = self.repin()
        self.assertEqual("vcpu 0", step.role)
        self.assertEqual(
            set(self.cpus[:1]), os.sched_getaffinity(self.process.pid)
        )
        self.assertEqual((), self.repin())

    def test_what_the_kernel_refuses_is_said(self):
        self.codes(sched=test_audit.FIFO)
        with (
            mock.patch.object(
                os, "sched_setscheduler", side_effect=PermissionError(1, "no")
            ),
            self.assertRaisesRegex(
                thread_plan.RepinFailed, "vcpu 0.*no.*cpuset"
            ),
        ):
            self.repin()

    def test_what_is_not_as_planned_is_said(self):
        self.codes(sched=test_audit.FIFO)
        with (
            mock.patch.object(os, "sched_setscheduler"),
            self.assertRaisesRegex(thread_plan.RepinFailed, "differs"),
        ):
            self.repin()

    def test_a_guest_that_does_not_run_here(self):
        with self.assertRaisesRegex(thread_plan.GuestNotFound, "server show"):
            thread_plan.find(Root(str(self.path)), test_audit.UUID)
