# SPDX-License-Identifier: Apache-2.0

"""Rates of an interface by tc; tests/functional/vif has them in the kernel."""

import errno
import unittest
from unittest import mock

import pyroute2

from sriov_rt.kernel import errors
from sriov_rt.kernel import tc
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.tc import Limits

LINK = Link(
    name="srt0",
    index=3,
    namespace="tenant",
    kind="macvlan",
    mode="bridge",
    parent=7,
    mac="02:00:5e:10:00:01",
    mtu=1500,
    up=True,
    carrier=True,
    alias="",
)


class Told(dict):
    """A message of the kernel: its fields, and attributes by their names."""

    def __init__(self, attributes, **fields):
        super().__init__(fields)
        self._attributes = attributes

    def get_attr(self, name):
        return self._attributes.get(name)


class LimitsTestCase(unittest.TestCase):
    """A kernel that says what it was given.

    :ivar refuse: command of tc to the errno that it gives.
    :ivar spoil: whether it keeps nothing at all.
    """

    def setUp(self):
        self.refuse = {}
        self.spoil = False
        self.asked = []
        self.route = mock.Mock()
        self.route.tc = self.tc
        self.route.get_classes = lambda index: self.told("add-class")
        self.route.get_filters = lambda index, parent: self.told("add-filter")

    def tc(self, command, kind, index, handle=0, **wanted):
        self.assertEqual(LINK.index, index)
        self.asked.append((command, kind, handle, wanted))
        if command in self.refuse:
            code = self.refuse[command]
            raise pyroute2.NetlinkError(code, "said the kernel")

    def told(self, wanted):
        if self.spoil:
            return ()
        found = []
        for command, kind, handle, asked in self.asked:
            if command != wanted:
                continue
            rate = asked["rate"]
            police = Told({"TCA_POLICE_TBF": {"rate": rate}})
            options = {
                "TCA_HTB_PARMS": {"rate": min(rate, 0xFFFFFFFF)},
                "TCA_HTB_RATE64": rate if rate > 0xFFFFFFFF else None,
                "TCA_U32_POLICE": police,
            }
            attributes = {"TCA_KIND": kind, "TCA_OPTIONS": Told(options)}
            found.append(Told(attributes, handle=handle))
        return found

    def commands(self):
        return [command for command, *_ in self.asked]

    def apply(self, *rates, **named):
        tc.apply(self.route, LINK, Limits(*rates, **named))


class OutTest(LimitsTestCase):
    def test_the_classes_of_seed_000(self):
        self.apply(out_kbps=10_000)
        self.assertEqual(
            [
                ("add", "htb", 0x10000, {"default": 0x11}),
                *(
                    (
                        "add-class",
                        "htb",
                        handle,
                        {"parent": p, "rate": 1250000},
                    )
                    for p, handle in ((0x10000, 0x10001), (0x10001, 0x10011))
                ),
            ],
            self.asked[2:],
        )

    def test_a_rate_above_32_bits(self):
        self.apply(out_kbps=100_000_000)
        self.assertEqual(100_000_000, tc.read(self.route, LINK).out_kbps)

    def test_a_rate_that_does_not_read_back(self):
        self.spoil = True
        with self.assertRaises(errors.NotVerified) as caught:
            self.apply(out_kbps=9)
        self.assertIn("not 9", str(caught.exception))


class InTest(LimitsTestCase):
    def test_all_that_comes_in_is_policed(self):
        for kbps, burst in ((8000, 131_072), (8_000_000, 50_000_000)):
            self.asked.clear()
            self.apply(in_kbps=kbps)
            qdisc, match = self.asked[2:]
            self.assertEqual(("add", "ingress", 0xFFFF0000, {}), qdisc)
            self.assertEqual(("add-filter", "u32"), match[:2])
            wanted = match[3]
            self.assertEqual(["0x0/0x0+0"], wanted["keys"])
            self.assertEqual(kbps * 125, wanted["rate"])
            self.assertEqual(
                (burst, 131_072), (wanted["burst"], wanted["mtu"])
            )

    def test_a_kernel_without_the_policer_leaves_no_limit(self):
        self.refuse = {"add-filter": errno.ENOENT}
        with self.assertRaises(errors.Unsupported) as caught:
            self.apply(1000, 1000)
        self.assertIn("said the kernel", str(caught.exception))
        self.assertEqual(["del", "del"], self.commands()[-2:])

    def test_a_rate_that_the_policer_cannot_have(self):
        with self.assertRaises(errors.Unsupported):
            self.apply(in_kbps=tc.MAX_IN_KBPS + 1)
        self.assertNotIn("add-filter", self.commands())


class RemoveTest(LimitsTestCase):
    def test_only_ours_is_removed(self):
        self.apply()
        self.assertEqual(
            [
                ("del", "htb", 0x10000, {"parent": 0xFFFFFFFF}),
                ("del", "ingress", 0xFFFF0000, {"parent": 0xFFFFFFF1}),
            ],
            self.asked,
        )

    def test_nothing_there(self):
        for code in (errno.ENOENT, errno.EINVAL):
            self.refuse = {"del": code}
            with self.subTest(code=code):
                self.apply()

    def test_what_is_refused_is_named(self):
        for code, named in (
            (errno.EPERM, errors.NotPermitted),
            (errno.ENODEV, errors.NoSuchLink),
        ):
            self.refuse = {"del": code}
            with self.assertRaises(named):
                self.apply()


class ReadTest(LimitsTestCase):
    def test_no_limit(self):
        self.assertEqual(Limits(), tc.read(self.route, LINK))

    def test_a_filter_of_others_is_no_limit(self):
        self.route.get_filters = lambda **_: (
            Told({}),
            Told({"TCA_OPTIONS": Told({})}),
        )
        self.assertEqual(Limits(), tc.read(self.route, LINK))
