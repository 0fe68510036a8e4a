# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt import reason as reasons
from sriov_rt.guest import sentences as guest
from sriov_rt.onload import sentences as onload
from sriov_rt.pods import sentences as kubernetes
from sriov_rt.reason import Fault


class FaultTest(unittest.TestCase):
    def test_every_code_that_has_a_fault_has_a_sentence(self):
        known = {
            *reasons.SENTENCES,
            *guest.SENTENCES,
            *onload.SENTENCES,
            *kubernetes.SENTENCES,
        }
        self.assertEqual(set(), reasons.REQUEST_FAULTS - known)

    def test_an_image_of_virtio_is_no_hosts_fault(self):
        found = guest.reason(
            "disk_on_virtio", target="vda", bus="virtio", prop="hw_disk_bus"
        )
        self.assertIs(Fault.REQUEST, found.fault)

    def test_a_host_that_is_not_isolated_is_at_fault_itself(self):
        found = guest.reason("vcpus_not_isolated", vcpus="0", cpus="2")
        self.assertIs(Fault.HOST, found.fault)
        found = reasons.reason("fact_unknown", fact="cpus", why="EACCES")
        self.assertIs(Fault.HOST, found.fault)


class RemedyTest(unittest.TestCase):
    def test_it_is_a_field_of_its_own(self):
        found = reasons.reason("fact_unknown", fact="cpus", why="a; b")
        self.assertEqual("cpus is unknown (a; b)", found.problem)
        self.assertEqual(
            "check that it is there and that sriov-rt-agent can read it",
            found.remedy,
        )
        self.assertEqual(found.remedy, found.to_plain()["remedy"])
        self.assertEqual(
            f"{found.problem}; {found.remedy}", found.to_plain()["message"]
        )

    def test_a_sentence_of_one_field(self):
        found = onload.reason("onload_refused", problem="no x; install x")
        self.assertEqual(("no x", "install x"), (found.problem, found.remedy))
        found = onload.reason("onload_refused", problem="no x")
        self.assertEqual(("no x", ""), (found.problem, found.remedy))

    def test_every_sentence_has_one(self):
        for sentences in (
            reasons.SENTENCES,
            guest.SENTENCES,
            onload.SENTENCES,
            kubernetes.SENTENCES,
        ):
            for code, sentence in sentences.items():
                if sentence != "{problem}":
                    with self.subTest(code):
                        self.assertIn(reasons.REMEDY, sentence)


class ReasonTest(unittest.TestCase):
    def test_json_has_code_fields_and_message(self):
        plain = reasons.reason(
            "kernel_not_rt", release="6.1", package="kernel-rt"
        ).to_plain()
        self.assertEqual("kernel_not_rt", plain["code"])
        self.assertEqual("6.1", plain["release"])
        self.assertIn("kernel 6.1 is not PREEMPT_RT", plain["message"])

    def test_sentences_are_one_clause_and_its_remedy(self):
        for code, sentence in reasons.SENTENCES.items():
            with self.subTest(code=code):
                self.assertFalse(sentence.endswith("."))
                self.assertIn("; ", sentence)


class FirstOfTest(unittest.TestCase):
    def test_all_or_the_first_and_the_number_of_others(self):
        for texts, separator, clause in (
            ([], ", ", ""),
            (["a", "b"], ", ", "a, b"),
            (["a", "b", "c", "d"], ", ", "a, b and 2 more"),
            (["a", "b", "c"], "; ", "a; b; and 1 more"),
        ):
            with self.subTest(clause):
                self.assertEqual(clause, reasons.first_of(texts, 2, separator))
