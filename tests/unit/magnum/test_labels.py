# SPDX-License-Identifier: Apache-2.0

"""Labels of clusters and nodegroups: read, or refused by name."""

import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.magnum import labels
from sriov_rt.request import grammar
from sriov_rt.request import words

#: Every character that a label was seen to break something with.
ODD = (
    "\0", "\n", "\r", "\t", '"', "'", "`", "$(id)", "{{ ds }}", "{% x %}",
    "%", "%s", "%(x)s", ",", ";", "=", ":", "\\", "/", "..", "<", "&",
    "\u2028", "\ud800", "\U0001f4a5", "\u202e", " ", "",
)  # fmt: skip


class ParseTest(unittest.TestCase):
    def test_labels_of_others_are_passed_over(self):
        found = labels.parse({"kube_tag": "v1", "cni": "x", "": "\0"})
        self.assertEqual(labels.Labels(), found)

    def test_each_of_ours(self):
        found = labels.parse(
            {
                "sriov_rt_networks": (
                    "fast 2b2e7f3c-93a7-4f5e-bf3c-9d6c1f1f0a11"
                ),
                "sriov_rt_huge_pages": "1G:4",
                "sriov_rt_runtimes": "kata-rt",
                "sriov_rt_vif": "macvlan",
                "sriov_rt_realtime": "required",
                "sriov_rt_pod_vif": "ipvlan:l3",
                "sriov_rt_pod_subnets": "172.20.0.0/16 172.21.0.0/16",
                "sriov_rt_pods_per_node": "16",
            }
        )
        pods = found.pod_networks
        self.assertEqual("l3", pods.vif.mode)
        self.assertEqual(found.networks, pods.networks)
        self.assertEqual("172.21.0.0/16", str(pods.subnets[1]))
        self.assertEqual(16, pods.pods)
        self.assertEqual(
            ("fast", "2b2e7f3c-93a7-4f5e-bf3c-9d6c1f1f0a11"), found.networks
        )
        self.assertEqual(4096, found.huge_pages.mib)
        self.assertEqual(("kata-rt",), found.runtimes)
        self.assertEqual(
            {
                "vif": words.Vif(words.VifKind.MACVLAN, "bridge"),
                "realtime": True,
            },
            found.demands,
        )

    def test_every_word_of_the_grammar_has_a_label(self):
        for name in grammar.KEYS:
            with self.subTest(name):
                with self.assertRaises(labels.LabelsRejected) as caught:
                    labels.parse({f"sriov_rt_{name}": "\0"})
                self.assertIn(f"sriov_rt_{name}", caught.exception.problems)

    def test_what_was_meant_to_be_ours_is_refused_by_name(self):
        for key in (
            "sriov_rt:vif",
            "sriov-rt_vif",
            "SRIOV_RT_VIF",
            "sriovrt_vif",
            "sriov_rt_vfi",
            "sriov_rt_",
            "sriov_rt",
            "sriov_rt_networks ",
        ):
            with self.subTest(key):
                with self.assertRaises(labels.LabelsRejected) as caught:
                    labels.parse({key: "macvlan"})
                self.assertIn(repr(key), str(caught.exception))
                self.assertIn("sriov_rt_vif", str(caught.exception))

    def test_every_problem_is_named(self):
        with self.assertRaises(labels.LabelsRejected) as caught:
            labels.parse(
                {"sriov_rt_vif": "tap", "sriov_rt_huge_pages": "4K:1"}
            )
        self.assertEqual(
            {"sriov_rt_vif", "sriov_rt_huge_pages"},
            set(caught.exception.problems),
        )

    def test_odd_characters(self):
        for text in ODD:
            for name in (*labels.OWN, *grammar.KEYS):
                with (
                    self.subTest(name=name, text=text),
                    self.assertRaises(labels.LabelsRejected),
                ):
                    labels.parse({labels.PREFIX + name: f"a{text}\0"})

    def test_bounds(self):
        for name, text in (
            ("networks", " ".join("n" * 17)),
            ("networks", "n" * 256),
            ("networks", "a  b"),
            ("huge_pages", "1G:0"),
            ("huge_pages", "1G:-1"),
            ("huge_pages", "1G:" + "9" * 200),
            ("huge_pages", "1G"),
            ("runtimes", "runc"),
            ("pod_vif", "macvtap"),
            ("pod_vif", "ipvlan:bridge"),
            ("pod_subnets", "172.20.0.1/16"),
            ("pod_subnets", "fd00::/64"),
            ("pod_subnets", "172.20.0.0/33"),
            ("pod_subnets", " ".join(["10.0.0.0/24"] * 17)),
            ("pods_per_node", "0"),
            ("pods_per_node", "1025"),
        ):
            with (
                self.subTest(name=name, text=text),
                self.assertRaises(labels.LabelsRejected),
            ):
                labels.parse({labels.PREFIX + name: text})

    @hypothesis.given(
        strategies.dictionaries(
            strategies.one_of(
                strategies.text(),
                strategies.sampled_from(
                    [labels.PREFIX + each for each in labels.OWN]
                ),
                strategies.text().map(lambda text: labels.PREFIX + text),
            ),
            strategies.text(),
        )
    )
    def test_it_is_total(self, found):
        try:
            labels.parse(found)
        except labels.LabelsRejected as error:
            self.assertTrue(set(error.problems) <= set(found))
