# SPDX-License-Identifier: Apache-2.0

"""Which nodegroups an operation builds."""

import dataclasses
import unittest

from sriov_rt.magnum import errors
from sriov_rt.magnum import operation
from sriov_rt.magnum.nodegroup import Settings
from tests.unit.magnum import shapes

FLAVORS = {
    each.name: each
    for each in (shapes.REALTIME_VF, shapes.ORDINARY, shapes.MACVLAN_ONLOAD)
}
BROKEN = shapes.with_extra_specs(
    shapes.REALTIME_VF, sriov_rt__realtime="maybe"
)


def group(name, flavor="rt.large", count=1, failed=False):
    return operation.Group(name, flavor, count, failed, shapes.nodegroup(name))


class OperationTest(unittest.TestCase):
    def setUp(self):
        self.flavors = dict(FLAVORS)
        self.built = {}
        self.read = []

    def _operation(self, *named):
        def flavors():
            self.read.append("flavors")
            return self.flavors

        def built():
            self.read.append("built")
            return self.built

        return operation.Operation(
            Settings(), flavors, shapes.networks, built, frozenset(named)
        )

    def test_a_refused_one_is_not_built_by_another_operation(self):
        groups = [group("old", failed=True), group("new")]
        found = self._operation("new").entries(groups)
        self.assertEqual({"new"}, set(found))

    def test_not_even_after_its_flavor_was_corrected_by_an_upgrade(self):
        refused = group("old", failed=True)
        under_way = self._operation()
        self.assertTrue(under_way.is_left_out(refused))
        under_way.leave_out([refused.uuid])
        # As the upgrade leaves it.
        found = under_way.entries([group("old"), group("new")])
        self.assertEqual({"new"}, set(found))

    def test_an_operation_on_it_builds_it(self):
        found = self._operation("old").entries([group("old", failed=True)])
        self.assertEqual({"old"}, set(found))

    def test_one_that_is_being_deleted_does_not_come_back(self):
        self.built = {"old": {"name": "old", "machineCount": 1}}
        for failed in (False, True):
            gone = dataclasses.replace(
                group("old", failed=failed), deleted=True
            )
            self.assertEqual({}, self._operation("new").entries([gone]))

    def test_a_failed_one_that_was_built_stays(self):
        self.built = {"old": {"name": "old", "machineCount": 1}}
        found = self._operation("new").entries([group("old", failed=True)])
        self.assertEqual({"old"}, set(found))

    def test_without_a_release_every_one_is_considered(self):
        self.built = None
        found = self._operation().entries([group("old", failed=True)])
        self.assertEqual({"old"}, set(found))

    def test_one_left_by_a_killed_conductor_is_built(self):
        # It is CREATE_IN_PROGRESS, and Helm has never had it.
        self.assertEqual(
            {"a11"}, set(self._operation().entries([group("a11")]))
        )

    def test_what_was_built_stays_as_it_was_if_its_flavor_vanishes(self):
        entry = {"name": "old", "machineCount": 3, "nodeLabels": {"a": "b"}}
        self.built = {"old": entry}
        for flavors in ({}, {"rt.large": BROKEN}):
            self.flavors = flavors
            for count, kept in ((3, 3), (5, 3), (2, 2)):
                with self.subTest(flavors=flavors, count=count):
                    found = self._operation("old").entries(
                        [group("old", count=count)]
                    )
                    self.assertEqual(
                        {"old": {**entry, "machineCount": kept}}, found
                    )

    def test_what_cannot_be_and_was_never_built_is_left_out(self):
        self.flavors = {"rt.large": BROKEN}
        self.assertEqual({}, self._operation().entries([group("new")]))

    def test_two_of_one_name_in_the_chart(self):
        second = operation.Group(
            "b", "rt.large", 1, False, shapes.nodegroup("old")
        )
        found = self._operation().entries([group("old"), second])
        self.assertEqual({"old"}, set(found))

    def test_growth(self):
        self.built = {"old": {"machineCount": 3}, "odd": {"machineCount": "x"}}
        under_way = self._operation()
        for name, count, grows in (
            ("old", 3, False),
            ("old", 4, True),
            ("new", 1, True),
            ("odd", 1, True),
        ):
            with self.subTest(name=name, count=count):
                self.assertEqual(
                    grows, under_way.grows(group(name, count=count))
                )

    def test_an_unknown_flavor(self):
        for name in ("nope", None, ""):
            with self.assertRaises(errors.NodegroupRefused) as caught:
                self._operation().render(group("new", flavor=name))
            self.assertIn("openstack flavor list", str(caught.exception))

    def test_two_thousand_are_read_in_two_requests(self):
        groups = [group(f"group-{n}", failed=n % 2) for n in range(2000)]
        found = self._operation().entries(groups)
        self.assertEqual(1000, len(found))
        self.assertEqual(["built", "flavors"], sorted(self.read))
