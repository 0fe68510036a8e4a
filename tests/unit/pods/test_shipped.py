# SPDX-License-Identifier: Apache-2.0

"""What is shipped for Kubernetes holds together."""

import pathlib
import tomllib
import unittest

import yaml

from sriov_rt.pods import profiles
from sriov_rt.pods import runtime_class

SHIPPED = pathlib.Path(__file__).resolve().parents[3] / "etc" / "kubernetes"


def documents(name):
    return list(yaml.safe_load_all((SHIPPED / name).read_text()))


class KataTest(unittest.TestCase):
    def setUp(self):
        (self.known,) = documents("addons/kata/runtimeclass.yaml")
        text = (SHIPPED / "kata/50-sriov-rt.toml").read_text()
        self.drop_in = tomllib.loads(text)

    def test_the_handler_has_one_name(self):
        text = (SHIPPED / "kata/containerd-kata-rt.toml").read_text()
        (plugin,) = tomllib.loads(text)["plugins"].values()
        self.assertEqual(
            [self.known["handler"]], list(plugin["containerd"]["runtimes"])
        )
        self.assertTrue(runtime_class.is_kata(self.known["handler"]))

    def test_kata_deploys_values_have_the_same_class_and_drop_in(self):
        (values,) = documents("kata/kata-deploy-values.yaml")
        (found,) = values["customRuntimes"]["runtimes"].values()
        self.assertEqual(self.drop_in, tomllib.loads(found["dropIn"]))
        self.assertEqual(self.known, yaml.safe_load(found["runtimeClass"]))
        self.assertLess({"baseConfig", "dropIn", "runtimeClass"}, set(found))

    def test_annotations_of_tenants_override_nothing(self):
        hypervisor = self.drop_in["hypervisor"]["qemu"]
        self.assertEqual([], hypervisor["enable_annotations"])

    def test_vfs_have_a_port(self):
        hypervisor = self.drop_in["hypervisor"]["qemu"]
        self.assertEqual("root-port", hypervisor["cold_plug_vfio"])
        # runtime-rs of 4.1 does not know it, and its default is no-port.
        self.assertNotIn("hot_plug_vfio", hypervisor)

    def test_huge_pages_are_requested_where_the_sandbox_has_them(self):
        hypervisor = self.drop_in["hypervisor"]["qemu"]
        self.assertTrue(hypervisor["enable_hugepages"])
        policy, _ = documents("addons/kata/policy.yaml")
        self.assertIn(
            repr(self.known["metadata"]["name"]),
            policy["spec"]["matchConditions"][0]["expression"],
        )
        self.assertGreater(hypervisor["pcie_root_port"], 0)


class PoliciesTest(unittest.TestCase):
    def test_each_policy_is_bound(self):
        for name in ("pod-policies/policies.yaml", "onload-pods/policy.yaml"):
            policies, bound = set(), set()
            for each in documents(f"addons/{name}"):
                if each["kind"].endswith("Binding"):
                    bound.add(each["spec"]["policyName"])
                else:
                    policies.add(each["metadata"]["name"])
            with self.subTest(name):
                self.assertEqual(policies, bound)

    def test_each_policy_has_a_condition_that_others_do_not_meet(self):
        for name in ("pod-policies/policies.yaml", "onload-pods/policy.yaml"):
            for each in documents(f"addons/{name}"):
                if not each["kind"].endswith("Binding"):
                    self.assertTrue(each["spec"]["matchConditions"])


class ProfilesTest(unittest.TestCase):
    def test_a_line_for_each_variable(self):
        found = profiles.config_map(
            {"latency": {"LD_PRELOAD": "/x.so", "EF_A": "1=2"}}, "x.com/y"
        )
        self.assertEqual(
            {"latency": "LD_PRELOAD=/x.so\nEF_A=1=2\n"}, found["data"]
        )
        self.assertEqual(
            "x.com/y", found["metadata"]["annotations"][profiles.RESOURCE]
        )

    def test_a_value_of_more_lines_would_be_a_variable_of_its_own(self):
        for value in ("1\nEF_B=2", "1\n", "1\rEF_B=2"):
            with (
                self.subTest(value),
                self.assertRaises(profiles.NotInLines),
            ):
                profiles.config_map({"latency": {"EF_A": value}}, "x.com/y")
