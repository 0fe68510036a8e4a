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

"""Ports of many threads, made on one parent in one go."""

import uuid
from concurrent import futures
from unittest import mock

from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import asked as checks
from sriov_rt.vif import errors
from sriov_rt.vif import plugging
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.plugging import Asked
from sriov_rt.vif.together import Job
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

PARENT = "enp1s0v0"


def port(number: int) -> str:
    return str(uuid.UUID(int=number))


class TogetherTest(fakes.HostTest):
    def setUp(self):
        super().setUp()
        self.host.budget = None
        self.plugging = self.plugger._plugging

    def jobs(self, *changes, count=4):
        """Return jobs of ports on one parent; some are changed."""
        found = []
        for number in range(count):
            fields = {
                "port": port(number),
                "name": f"eth{number}",
                "parent": PARENT,
            }
            if number < len(changes):
                fields |= changes[number]
            found.append(Job(Asked(checks.checked(asked(**fields)), False)))
        return found

    def made(self):
        return sorted(each.interface for each in self.plugger.show())

    def test_all_are_made_at_few_looks(self):
        jobs = self.jobs(count=9)
        looks = mock.Mock(wraps=plugging.observe)
        with mock.patch.object(plugging, "observe", looks):
            self.plugging._on(PARENT, lambda: jobs)
        for number, job in enumerate(jobs):
            link, plugged = job.result()
            self.assertEqual(link, self.host.named(f"eth{number}", "box"))
            self.assertEqual(plugged.port, port(number))
        # One more when the first has set the parent up.
        self.assertLessEqual(looks.call_count, 2)
        self.assertEqual((), self.pending())

    def test_one_sees_those_before_it(self):
        jobs = self.jobs({}, {"name": "eth0"})
        self.plugging._on(PARENT, lambda: jobs)
        with self.assertRaises(errors.NotOurs):
            jobs[1].result()
        self.assertEqual(["eth0", "eth2", "eth3"], self.made())

    def test_the_room_of_a_parent_is_counted(self):
        self.host.budget = 2
        jobs = self.jobs()
        self.plugging._on(PARENT, lambda: jobs)
        for job in jobs[2:]:
            with self.assertRaises(errors.BudgetExceeded):
                job.result()
        self.assertEqual(["eth0", "eth1"], self.made())

    def test_each_has_its_own_error(self):
        other = {"parent": "bond0"}
        jobs = self.jobs({}, other, {"mode": "passthru"})
        self.plugging._on(PARENT, lambda: jobs)
        with self.assertRaises(ParseError):
            jobs[1].result()
        with self.assertRaises(errors.ParentTaken):
            jobs[2].result()
        self.assertEqual(["eth0", "eth3"], self.made())

    def test_what_fails_is_undone_and_the_others_go_on(self):
        create = self.links.create

        def fail(what):
            if what.name == "eth1":
                raise errors.NotPermitted("eth1")
            return create(what)

        jobs = self.jobs()
        with mock.patch.object(self.links, "create", fail):
            self.plugging._on(PARENT, lambda: jobs)
        with self.assertRaises(errors.NotPermitted):
            jobs[1].result()
        self.assertEqual(["eth0", "eth2", "eth3"], self.made())
        self.assertEqual((), self.pending())

    def test_a_port_that_is_at_work_elsewhere_is_left_to_its_thread(self):
        jobs = self.jobs()
        with Locks(self.directory, 1.0).port(port(1)):
            self.plugging._on(PARENT, lambda: jobs)
        with self.assertRaises(plugging._NotNow):
            jobs[1].result()
        self.assertEqual(["eth0", "eth2", "eth3"], self.made())

    def test_one_that_was_left_half_done_is_settled_first(self):
        self.host.clock.set(2)
        with self.assertRaises(fakes.Killed):
            self.plugger.plug(asked(parent=PARENT))
        self.host.clock.set(None)
        self.assertEqual((PORT,), self.pending())
        self.assertEqual("eth1", self.plugger.plug(asked()).interface)
        self.assertEqual((), self.pending())

    def test_who_is_led_by_one_that_is_killed_does_it_again(self):
        alone = self.plugging._together.do
        kills = iter((plugging.Interrupted(),))

        def do(what, want):
            for each in kills:
                raise each
            return alone(what, want)

        with mock.patch.object(self.plugging._together, "do", do):
            found = self.plugger.plug(asked(parent=PARENT))
        self.assertEqual((found,), self.plugger.show())

    def test_threads_that_plug_at_once(self):
        def plug(number):
            return self.plugger.plug(
                asked(port=port(number), name=f"eth{number}", parent=PARENT)
            )

        with futures.ThreadPoolExecutor(20) as pool:
            found = list(pool.map(plug, range(60)))
        self.assertEqual([port(n) for n in range(60)], [x.port for x in found])
        self.assertEqual(60, len(self.plugger.show()))
        self.assertEqual((), self.pending())
