# SPDX-License-Identifier: Apache-2.0

import contextlib
import json
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.parse import errors
from sriov_rt.parse import kubelet
from sriov_rt.parse.cpulist import parse_cpu_list as cpus

#: As Kubernetes 1.34 writes it.
STATE = (
    '{"policyName":"static","defaultCpuSet":"0-1,4","entries":'
    '{"b1f0a1de-7c66-4b0d-9d0c-3f3f0b0a9f55":{"app":"2-3","log":"5"}},'
    '"checksum":1353318690}'
)
POD = "b1f0a1de-7c66-4b0d-9d0c-3f3f0b0a9f55"


def changed(**fields):
    return json.dumps(json.loads(STATE) | fields)


class StateTest(unittest.TestCase):
    parse = staticmethod(kubelet.parse_cpu_manager_state)

    def test_static_cpus(self):
        found, shared = self.parse(STATE)
        self.assertEqual(
            ((POD, "app", cpus("2-3")), (POD, "log", cpus("5"))), found
        )
        self.assertEqual(cpus("0-1,4"), shared)

    def test_without_pods(self):
        self.assertEqual(
            ((), cpus("0-1,4")), self.parse(changed(entries=None))
        )
        none = '{"policyName":"none","defaultCpuSet":"","checksum":1}'
        self.assertEqual(((), None), self.parse(none))

    def test_later_forms_keep_the_fields_of_this_one(self):
        """Kubernetes 1.36 with pod-level managers, and 1.37."""
        third = changed(podEntries={POD: {"cpuSet": "2-3,5"}})
        fourth = changed(
            podEntries={POD: {"cpuSet": "2-3,5"}},
            data=json.dumps(json.loads(STATE)),
            dataChecksum=99,
        )
        for text in (third, fourth):
            self.assertEqual(self.parse(STATE), self.parse(text))

    def test_the_first_form_had_no_pods(self):
        """Kubelets before 1.18: what container has which CPUs is unknown."""
        with self.assertRaises(errors.ParseError) as caught:
            self.parse(changed(entries={"aa1bb2cc3dd4": "2-3"}))
        self.assertIn("containers expected", str(caught.exception))

    def test_names_are_printable(self):
        ((pod, *_),), _ = self.parse(changed(entries={"a\n": {"b": "1"}}))
        self.assertEqual("a?", pod)

    def test_other_texts_are_refused(self):
        for text in (
            "",
            "[]",
            "{}",
            "[" * 5000,
            changed(policyName=1),
            changed(entries=[]),
            changed(entries={"a": "1"}),
            changed(entries={"a": {"b": 1}}),
            changed(entries={"a": {"b": "x"}}),
            changed(defaultCpuSet=None),
            changed(entries={"a": {str(n): "1" for n in range(8193)}}),
            " " * (kubelet.MAX_TEXT + 1),
        ):
            with self.subTest(text[:60]), self.assertRaises(errors.ParseError):
                self.parse(text)

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(
        strategies.integers(0, 200), strategies.text(max_size=12)
    )
    def test_any_text_is_taken_or_refused(self, place, other):
        with contextlib.suppress(errors.ParseError):
            self.parse(STATE[:place] + other + STATE[place + 3 :])
