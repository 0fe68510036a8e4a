# SPDX-License-Identifier: Apache-2.0

import json
import unittest

from sriov_rt.kubevirt import vmi as vmis
from sriov_rt.kubevirt.vmi import PREFIX
from sriov_rt.request import grammar
from sriov_rt.request.words import DeviceClass
from sriov_rt.request.words import Guest
from tests.unit.kubevirt import documents


def refusal(document):
    try:
        vmis.parse(document)
    except vmis.VmiRejected as error:
        return str(error)
    raise AssertionError("it was taken")


class NothingAskedTest(unittest.TestCase):
    def test_a_vmi_without_annotations_of_ours(self):
        other = json.loads(documents.vmi())
        other["metadata"]["annotations"] = {"kubevirt.io/x": "y"}
        for document in (documents.vmi(), json.dumps(other).encode()):
            self.assertIsNone(vmis.parse(document))

    def test_whatever_is_no_vmi_and_does_not_name_us(self):
        for document in (
            b"",
            b"{",
            b"[]",
            b"\xff\xfe",
            b'{"metadata": []}',
            b'{"metadata": {"annotations": 7}}',
            b"[" * 100_000,
            b'"' + b"x" * (vmis.MAX_VMI + 1) + b'"',
        ):
            with self.subTest(document=document[:20]):
                self.assertIsNone(vmis.parse(document))


class AskedTest(unittest.TestCase):
    def test_annotations_are_extra_specs(self):
        found = vmis.parse(
            documents.vmi(
                guest="lean",
                keep="rng",
                realtime="required",
                kernel="preempt_rt",
                max_latency_us="50",
            )
        )
        request = found.request
        self.assertEqual(Guest.LEAN, request.guest)
        self.assertTrue(request.realtime)
        self.assertEqual(50, request.max_latency_us)
        self.assertEqual("realtime/rt", str(found))
        self.assertEqual("realtime_rt", found.domain)

    def test_the_agents_channel_stays_unless_asked_away(self):
        on = vmis.parse(documents.vmi(guest="lean"))
        off = vmis.parse(documents.vmi(guest="lean", guest_agent="off"))
        self.assertIn(DeviceClass.CHANNEL, on.keeps)
        self.assertNotIn(DeviceClass.CHANNEL, off.keeps)

    def test_bare_has_to_ask_the_agents_channel_away(self):
        self.assertIn("guest_agent=off", refusal(documents.vmi(guest="bare")))
        vmis.parse(documents.vmi(guest="bare", guest_agent="off"))

    def test_every_extra_spec_is_taken_or_refused_with_a_way(self):
        for name in grammar.KEYS:
            with self.subTest(name=name):
                if name in vmis.SUPPORTED:
                    continue
                sentence = refusal(documents.vmi(**{name: "x"}))
                self.assertIn(f"{PREFIX}{name} is not for KubeVirt", sentence)

    def test_what_is_wrong_is_named_all_at_once(self):
        sentence = refusal(
            documents.vmi(guest="naked", guets="lean", guest_agent="maybe")
        )
        for part in ("guest: ", "guets is unknown", "'on' or 'off'"):
            self.assertIn(part, sentence)

    def test_a_damaged_vmi_that_names_us_is_refused(self):
        whole = documents.vmi(guest="lean")
        for document in (
            whole[:-5],
            whole.replace(documents.UID.encode(), b"../../etc"),
            whole.replace(b'"lean"', b"7"),
            whole.replace(b'"interfaces": [', b'"interfaces": [3, '),
            whole + b" " * vmis.MAX_VMI,
        ):
            with self.subTest(document=document[:40]):
                self.assertIn("cannot be read", refusal(document))

    def test_a_name_is_repeated_in_bounds(self):
        sentence = refusal(documents.vmi(**{"x\n" * 500: "lean"}))
        self.assertTrue(sentence.isprintable())
        self.assertLess(len(sentence), 400)

    def test_realtime_and_its_mask(self):
        for of_cpu, mask in (
            ({}, None),
            ({"mask": ""}, None),
            ({"mask": "0-3,^1"}, {0, 2, 3}),
        ):
            found = vmis.parse(documents.vmi(of_cpu, realtime="required"))
            self.assertTrue(found.is_realtime)
            self.assertEqual(mask, found.mask and set(found.mask))
        bad = documents.vmi({"mask": "x"}, realtime="required")
        self.assertIn("realtime.mask", refusal(bad))

    def test_sriov_interfaces_alone(self):
        found = vmis.parse(documents.vmi(interfaces=("fast",), guest="lean"))
        self.assertEqual(("fast",), found.interfaces)

    def test_a_vmi_of_200_kilobytes(self):
        plain = json.loads(documents.vmi(guest="lean"))
        plain["spec"]["volumes"] = ["x" * 1000] * 200
        self.assertIsNotNone(vmis.parse(json.dumps(plain).encode()))


class IdentityTest(unittest.TestCase):
    def test_of_any_vmi(self):
        found = vmis.identity(documents.vmi())
        self.assertEqual(
            (documents.UID, "realtime/rt"), (found.uid, str(found))
        )

    def test_of_no_vmi(self):
        for document in (b"", b"{}", b'{"metadata": {"uid": "../x"}}'):
            self.assertEqual("", vmis.identity(document).uid)
