# SPDX-License-Identifier: Apache-2.0

import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt import request
from sriov_rt.parse import errors
from sriov_rt.request import grammar
from sriov_rt.request import words

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")


class KeysTest(unittest.TestCase):
    def test_the_page_says_what_a_flavor_without_it_has(self):
        bare = words.Request()
        for name, key in grammar.KEYS.items():
            with self.subTest(name):
                default = getattr(bare, key.field)
                try:
                    said = key.parse(key.unset)
                except errors.ParseError:
                    self.assertFalse(default)
                else:
                    self.assertEqual(default, said)
                self.assertTrue(key.since)


class ParseTest(unittest.TestCase):
    def test_a_full_flavor(self):
        asked = request.parse(
            {
                "hw:cpu_policy": "dedicated",
                "hw:cpu_realtime": "yes",
                "hw_rng:allowed": "True",
                "trait:CUSTOM_X": "required",
                "sriov_rt:realtime": "required",
                "sriov_rt:kernel": "preempt_rt",
                "sriov_rt:node_selector": "pci-1924.present=true",
                "sriov_rt:nic": "8086:10CA",
                "sriov_rt:vif": "macvlan",
                "sriov_rt:onload": "required",
                "sriov_rt:onload_profile": "latency-best",
                "sriov_rt:guest": "lean",
                "sriov_rt:keep": "usb, console",
                "sriov_rt:emulator_sched": "rr:2",
                "sriov_rt:max_latency_us": "50",
            }
        )
        self.assertTrue(asked.realtime)
        self.assertTrue(asked.dedicated_cpus)
        self.assertIs(words.Kernel.PREEMPT_RT, asked.kernel)
        self.assertEqual(
            "feature.node.kubernetes.io/pci-1924.present",
            asked.node_selector.requirements[0].key,
        )
        self.assertEqual(
            words.Nic("8086:10ca", frozenset({"8086"}), "10ca"), asked.nic
        )
        self.assertEqual(words.Vif(words.VifKind.MACVLAN, "bridge"), asked.vif)
        self.assertEqual("latency-best", asked.onload_profile)
        self.assertIs(words.Guest.LEAN, asked.guest)
        self.assertEqual(
            {
                words.DeviceClass.USB,
                words.DeviceClass.CONSOLE,
                words.DeviceClass.RNG,
            },
            asked.keep,
        )
        self.assertEqual(words.Scheduling("rr", 2), asked.emulator_sched)
        self.assertEqual(50, asked.max_latency_us)

    def test_no_key_of_ours_asks_nothing(self):
        self.assertEqual(
            request.Request(), request.parse({"quota:cpu_shares": "1"})
        )
        self.assertFalse(request.asks({"hw:cpu_policy": "dedicated"}))

    def test_every_problem_is_told_at_once(self):
        with self.assertRaises(request.RequestError) as caught:
            request.parse(
                {
                    "sriov_rt:kernel": "rt",
                    "sriov_rt:reltime": "required",
                    "sriov_rt:max_latency_us": "-1",
                    "sriov_rt:onload_profile": "latency",
                }
            )
        self.assertEqual(
            {
                "sriov_rt:kernel",
                "sriov_rt:reltime",
                "sriov_rt:max_latency_us",
                "sriov_rt:onload_profile",
            },
            set(caught.exception.problems),
        )
        self.assertIn("any, preempt_rt", str(caught.exception))

    def test_cpus_that_nova_dedicates(self):
        for specs, dedicated in (
            ({"hw:cpu_policy": "dedicated"}, True),
            ({"resources:PCPU": "2"}, True),
            ({"resources1:PCPU": "1", "resources2:PCPU": "1"}, True),
            ({"resources:PCPU": "0"}, False),
            ({"resources:PCPU": "two"}, False),
            ({"resources:VCPU": "2"}, False),
            ({"resources:PCPUS": "2"}, False),
            ({"resources:PCPU": "0", "hw:cpu_policy": "dedicated"}, True),
        ):
            with self.subTest(specs):
                found = request.parse(specs)
                self.assertIs(dedicated, found.dedicated_cpus)
                self.assertFalse(found.mixed_cpus)

    def test_cpus_that_nova_rejects(self):
        for specs in (
            {"hw:cpu_policy": "dedicated", "resources:PCPU": "2"},
            {"hw:cpu_policy": "shared", "resources1:VCPU": "2"},
            {"resources:VCPU": "1", "resources:PCPU": "1"},
        ):
            with self.subTest(specs):
                with self.assertRaises(request.RequestError) as caught:
                    request.parse(specs)
                said = str(caught.exception)
                for key in specs:
                    self.assertIn(key, said)
                self.assertIn("unset the others", said)

    def test_a_request_can_key_a_cache(self):
        specs = {"sriov_rt:node_selector": "a in (x,y)"}
        self.assertEqual(
            hash(request.parse(specs)), hash(request.parse(specs))
        )


class ValueTest(unittest.TestCase):
    def _refused(self, name: str, *values: str) -> None:
        for value in values:
            with self.subTest(name=name, value=value):
                with self.assertRaises(errors.ParseError) as caught:
                    grammar.parse_value(name, value)
                self.assertTrue(caught.exception.problem)

    def test_values_out_of_the_grammar(self):
        self._refused("realtime", "", "yes", "Required", "required ")
        self._refused("kernel", "rt", "")
        self._refused("nic", "mellanox", "80860", "8086:", "8086:10ca:1")
        self._refused("vif", "bridge", "macvlan:", "macvlan:l2", "vf:l2")
        self._refused("onload", "yes", "")
        self._refused(
            "onload_profile", "", "../x", "/etc/x", "a b", "a;b", "-p", "\0"
        )
        self._refused("keep", "", "video,", "disk")
        self._refused("vcpu_sched", "fifo", "fifo:0", "fifo:100", "fifo:١")
        self._refused("max_latency_us", "-1", "0", "1_0", "1e3", "٣", " 1")
        self._refused("node_selector", "a in", "a,,b", "=x")

    def test_what_is_expected_is_named(self):
        for name, sentence in (
            ("realtime", "required expected"),
            ("guest", "one of standard, lean, bare expected"),
        ):
            with self.subTest(name):
                with self.assertRaises(errors.ParseError) as caught:
                    grammar.parse_value(name, "other")
                self.assertEqual(sentence, caught.exception.problem)

    def test_values_longer_than_nova_keeps(self):
        self._refused("node_selector", "a=b," * 64)

    @hypothesis.given(
        strategies.sampled_from(sorted(grammar.KEYS)), strategies.text()
    )
    def test_any_text_is_parsed_or_refused(self, name, text):
        try:
            grammar.parse_value(name, text)
        except errors.ParseError as error:
            self.assertTrue(str(error))

    def test_each_key_sets_a_field_of_the_request(self):
        fields = request.Request.__dataclass_fields__
        for name, key in grammar.KEYS.items():
            self.assertIn(key.field, fields, name)
