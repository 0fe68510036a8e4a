# SPDX-License-Identifier: Apache-2.0

"""What NFD makes of a host, with the configuration that we ship."""

import time

from tests.kubernetes.base import KubernetesTestCase
from tests.testbed.kube.host_tree import Card
from tests.testbed.kube.host_tree import HostTree

_PREFIX = "feature.node.kubernetes.io"
_SOLARFLARE = f"{_PREFIX}/pci-1924.present"
_PREEMPT_RT = f"{_PREFIX}/kernel-config.PREEMPT_RT"
#: What capi-helm-charts gives the workers of a cluster from Magnum
#: (charts/cluster-addons/templates/nfd.yaml).
_CAPI_HELM = """\
sources:
  pci:
    deviceClassWhitelist: ["02", "03", "0b40", "12"]
    deviceLabelFields: [vendor]
"""
#: Seconds from a change to its label; the worker looks every second.
_SOON = 10.0


class NfdTest(KubernetesTestCase):
    """A worker for each test's Node, one master for all."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.kube.install_nfd()

    def host(self, name: str) -> HostTree:
        tree = self.kube.tree(self.node(name))
        self.kube.start_worker(name, tree)
        self.addCleanup(self.kube.nfd.stop_worker, name)
        self.wait_for_label(name, f"{_PREFIX}/system-os_release.ID", "debian")
        return tree

    def wait_for_label(self, node: str, key: str, value: str | None) -> None:
        self.kube.nodes.wait_for_label(node, key, value, _SOON)

    def test_a_card_that_comes_and_goes_is_labelled_so(self) -> None:
        tree = self.host("card")
        card = Card()
        self.assertNotIn(_SOLARFLARE, self.kube.nodes.labels("card"))
        for _ in range(2):
            tree.plug(card)
            self.wait_for_label("card", _SOLARFLARE, "true")
            tree.unplug(card)
            self.wait_for_label("card", _SOLARFLARE, None)

    def test_a_card_with_virtual_functions_is_labelled_so(self) -> None:
        tree = self.host("virtual")
        tree.plug(Card(virtual_functions=16))
        for name in ("pci-1924.sriov.capable", "network-sriov.capable"):
            self.wait_for_label("virtual", f"{_PREFIX}/{name}", "true")

    def test_a_card_of_another_class_gets_no_label(self) -> None:
        tree = self.host("serial")
        tree.plug(Card(device_class="070000"))
        # The next change is seen, and so was the one before it.
        tree.write_features("seen", "seen=true\n")
        self.wait_for_label("serial", f"{_PREFIX}/seen", "true")
        self.assertNotIn(_SOLARFLARE, self.kube.nodes.labels("serial"))

    def test_a_realtime_kernel_is_labelled_so(self) -> None:
        tree = self.host("realtime")
        self.assertNotIn(_PREEMPT_RT, self.kube.nodes.labels("realtime"))
        tree.set_kernel_options({"PREEMPT_RT": "y", "NO_HZ_FULL": "y"})
        self.wait_for_label("realtime", _PREEMPT_RT, "true")
        self.wait_for_label(
            "realtime", f"{_PREFIX}/kernel-config.NO_HZ_FULL", "true"
        )

    def test_a_feature_file_becomes_labels(self) -> None:
        tree = self.host("local")
        tree.write_features("sriov-rt", "sriov-rt.ready=true\n")
        self.wait_for_label("local", f"{_PREFIX}/sriov-rt.ready", "true")

    def test_a_change_during_an_outage_waits_for_compaction(self) -> None:
        # nfd-master lists in pages from the version that it knew, and gets
        # just that version, until etcd has forgotten it.
        tree = self.host("outage")
        card = Card()
        tree.plug(card)
        self.wait_for_label("outage", _SOLARFLARE, "true")
        self.kube.stop_api_server()
        tree.unplug(card)
        self.kube.start_api_server()
        time.sleep(_SOON)
        self.assertIn(_SOLARFLARE, self.kube.nodes.labels("outage"))
        self.kube.etcd.compact()
        self.kube.nodes.wait_for_label("outage", _SOLARFLARE, None, 90.0)

    def test_nodes_of_a_cluster_from_magnum_are_labelled_by_vendor(
        self,
    ) -> None:
        tree = self.kube.tree(self.node("magnum"))
        tree.plug(Card())
        tree.set_kernel_options({"PREEMPT_RT": "y"})
        file = tree.root / "nfd-worker.conf"
        file.write_text(_CAPI_HELM)
        self.kube.start_worker("magnum", tree, configuration=file)
        self.addCleanup(self.kube.nfd.stop_worker, "magnum")
        self.wait_for_label("magnum", _SOLARFLARE, "true")
        self.assertNotIn(_PREEMPT_RT, self.kube.nodes.labels("magnum"))

    def test_without_our_configuration_the_labels_are_missing(self) -> None:
        tree = self.kube.tree(self.node("defaults"))
        tree.plug(Card())
        tree.set_kernel_options({"PREEMPT_RT": "y", "NO_HZ_FULL": "y"})
        empty = tree.root / "nfd-worker.conf"
        empty.touch()
        self.kube.start_worker("defaults", tree, configuration=empty)
        self.addCleanup(self.kube.nfd.stop_worker, "defaults")
        self.wait_for_label(
            "defaults", f"{_PREFIX}/kernel-config.NO_HZ_FULL", "true"
        )
        labels = self.kube.nodes.labels("defaults")
        self.assertNotIn(_PREEMPT_RT, labels)
        self.assertEqual([], [key for key in labels if "pci-" in key])
