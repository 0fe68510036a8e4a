# SPDX-License-Identifier: Apache-2.0

"""Tests of sriov_rt.kubevirt.pod_resources."""

import unittest

from sriov_rt.kubevirt.pod_resources import Pod

LONG = "a-virtual-machine-with-a-name-that-is-longer-than-any-pod-takes"


class LauncherTest(unittest.TestCase):
    """Which pod is a VMI's."""

    def is_launcher(self, pod: str, vmi: str, namespace: str = "lab") -> bool:
        return Pod("lab", pod, frozenset()).is_launcher(namespace, vmi)

    def test_a_pod_of_the_vmi(self) -> None:
        self.assertTrue(self.is_launcher("virt-launcher-rt-0-x7k2p", "rt-0"))

    def test_a_pod_of_a_vmi_whose_name_begins_alike(self) -> None:
        self.assertFalse(self.is_launcher("virt-launcher-rt-0-x7k2p", "rt"))

    def test_a_pod_of_another_namespace(self) -> None:
        self.assertFalse(
            self.is_launcher("virt-launcher-rt-0-x7k2p", "rt-0", "office")
        )

    def test_a_name_that_the_api_server_has_cut(self) -> None:
        pod = f"virt-launcher-{LONG}"[:58] + "x7k2p"
        self.assertTrue(self.is_launcher(pod, LONG))
        self.assertFalse(self.is_launcher(pod, LONG[:40]))
