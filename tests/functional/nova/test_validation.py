# SPDX-License-Identifier: Apache-2.0

from nova.tests.functional.api import client

from sriov_rt.request import grammar
from tests.functional.nova import base


class ValidationTest(base.CloudTest):
    def _set(self, name: str, value: object) -> None:
        flavor = self._create_flavor()
        self.api.post_extra_spec(flavor, {"extra_specs": {name: value}})

    def _refused(self, name: str, value: object, *words: str) -> None:
        with self.assertRaises(client.OpenStackApiException) as caught:
            self._set(name, value)
        response = caught.exception.response
        self.assertEqual(400, response.status_code)
        message = response.json()["badRequest"]["message"]
        for word in (name, *words):
            self.assertIn(word, message)

    def test_values_out_of_the_grammar_are_refused_with_a_sentence(self):
        for name, value, words in (
            ("kernel", "rt", ("any, preempt_rt",)),
            ("realtime", "yes", ("required",)),
            ("node_selector", "a in (b", ("label selector", "at ")),
            ("node_selector", "a b", ("label selector",)),
            ("max_latency_us", "-1", ("latency in µs",)),
            ("max_latency_us", "1_0", ("latency in µs",)),
            ("nic", "broadcom", ("solarflare",)),
            ("vif", "macvlan:l2", ("bridge",)),
            ("guest", "naked", ("lean, bare",)),
            ("keep", "video,bios", ("console",)),
            ("vcpu_sched", "fifo:100", ("priority",)),
            ("onload_profile", "../etc/passwd", ("letter or digit",)),
        ):
            with self.subTest(name=name, value=value):
                self._refused(f"sriov_rt:{name}", value, *words)

    def test_a_name_that_does_not_exist_is_told_those_that_do(self):
        for name in ("sriov_rt:realtim", "sriov_rt:", "sriov_rt:a:b"):
            with self.subTest(name=name):
                self._refused(name, "required", *grammar.KEYS)

    def test_values_in_the_grammar_pass(self):
        for name, value in (
            ("realtime", "required"),
            ("kernel", "preempt_rt"),
            ("node_selector", "a=b,c notin (d,e),!f,g>5"),
            ("nic", "8086:10ca"),
            ("vif", "macvlan:bridge"),
            ("guest", "bare"),
            ("keep", "rng, console"),
            ("vcpu_sched", "rr:7"),
            ("max_latency_us", "20"),
            ("max_latency_us", 20),
        ):
            with self.subTest(name=name, value=value):
                self._set(f"sriov_rt:{name}", value)

    def test_namespaces_that_only_look_like_ours_are_left_alone(self):
        for name in ("sriov_rts:realtime", "sriovXrt:realtime", "sriov_rt"):
            with self.subTest(name=name):
                self._set(name, "whatever")

    def test_validation_can_be_switched_off_as_nova_lets_it_be(self):
        self.api.microversion = "2.85"
        self._set("sriov_rt:kernel", "rt")
