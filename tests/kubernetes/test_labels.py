# SPDX-License-Identifier: Apache-2.0

"""A real Node's labels, all the way into a scheduler's decision."""

import contextlib
import logging
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from tests.kubernetes.base import KubernetesTestCase
from tests.kubernetes.live import CARD
from tests.kubernetes.live import STALE_AFTER_S
from tests.kubernetes.live import WATCH_S
from tests.kubernetes.live import Live
from tests.testbed.kube.host_tree import Card

PASSES: tuple[str, ...] = ()
STALE = ("labels_stale",)
MISMATCH = ("labels_mismatch",)

#: After an outage: the longest delay, one request, and what is slow here.
RECOVERY_S = 15.0

LOG = logging.getLogger(__name__)


class LabelsTest(KubernetesTestCase):
    """One control plane; a Node and its agent for each test."""

    def setUp(self) -> None:
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.name = self.node(self._testMethodName.replace("_", "-")[5:45])

    def label(self, value: str | None) -> None:
        """Set or remove the card's label; the Node keeps another of NFD's."""
        self.kube.nodes.label(
            self.name,
            {CARD: value, "feature.node.kubernetes.io/memory-numa": "true"},
        )

    @contextlib.contextmanager
    def following(self, user: Any = None, **settings: Any) -> Iterator[Live]:
        """Run an agent that follows the Node, as nobody but itself may."""
        if user is None:
            self.kube.agents.grant(self.name)
            user = self.kube.agents.with_certificate(self.name)
            settings = {"kubeconfig": str(user.kubeconfig)}
        found = Live(self.name, self.place, **settings)
        with found.running():
            yield found

    def test_a_label_comes_and_goes(self) -> None:
        self.label(None)
        with self.following() as host:
            host.wait_for(MISMATCH, RECOVERY_S)
            seconds = []
            for _ in range(3):
                self.label("true")
                seconds.append(host.wait_for(PASSES, 5.0))
                self.label("false")
                host.wait_for(MISMATCH, 5.0)
            # By the watch, and not only by the next list.
            self.assertLess(min(seconds), WATCH_S / 2)
            self.label(None)
            host.wait_for(MISMATCH, 5.0)
            host.wait_for(PASSES, 5.0, "!pci-1924.present,memory-numa")

    def test_extended_resources_are_labels(self) -> None:
        self.label(None)
        self.kube.nodes.set_resources(self.name, {"solarflare.com/sfc": "8"})
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S, "solarflare.com/sfc>7")
            self.kube.nodes.set_resources(
                self.name, {"solarflare.com/sfc": "7"}
            )
            host.wait_for(MISMATCH, 5.0, "solarflare.com/sfc>7")

    def test_an_api_server_that_is_down_for_longer_than_the_limit(
        self,
    ) -> None:
        self.label("true")
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S)
            self.kube.stop_api_server()
            try:
                # Known labels count on, and so does what is missing.
                host.stays(PASSES, STALE_AFTER_S - 4.0)
                host.wait_for(STALE, 6.0)
                host.wait_for(STALE, 1.0, "!pci-1924.present")
                host.wait_for(STALE, 1.0, "no-such-label notin (x)")
                (reason,) = host.reasons()
                self.assertIn("source kubernetes for longer", reason.message)
                host.stop_agent()
                host.start_agent()
                host.wait_for(STALE, 5.0)
            finally:
                self.kube.start_api_server()
            host.wait_for(PASSES, RECOVERY_S)
            host.wait_for(MISMATCH, 1.0, "no-such-label")

    def test_a_restart_of_the_agent_in_a_short_outage(self) -> None:
        self.label("true")
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S)
            self.kube.stop_api_server()
            try:
                host.stop_agent()
                host.start_agent()
                host.wait_for(PASSES, 3.0)
                host.wait_for(STALE, STALE_AFTER_S + 2.0)
            finally:
                self.kube.start_api_server()
            host.wait_for(PASSES, RECOVERY_S)

    def test_an_api_server_that_hangs(self) -> None:
        self.label("true")
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S)
            try:
                self.kube.server.hang()
                host.wait_for(STALE, STALE_AFTER_S + WATCH_S + 3.0)
            finally:
                self.kube.server.resume()
            host.wait_for(PASSES, RECOVERY_S)

    def test_versions_that_are_gone_are_listed_again(self) -> None:
        other = self.node("other")
        self.label("true")
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S)
            # Time goes on in Kubernetes, and nothing happens to this Node.
            for number in range(20):
                self.kube.nodes.label(other, {"x.example/n": str(number)})
            with self.assertLogs("sriov_rt.kubernetes", "DEBUG") as logged:
                self.kube.expire()
                self.label("false")
                host.wait_for(MISMATCH, RECOVERY_S)
                self.label("true")
                host.wait_for(PASSES, 5.0)
            self.assertIn("is listed again", "".join(logged.output))

    def test_a_certificate_that_expires_and_is_replaced(self) -> None:
        self.label("true")
        self.kube.agents.grant(self.name)
        user = self.kube.agents.with_certificate(self.name, seconds=8)
        with self.following(user, kubeconfig=str(user.kubeconfig)) as host:
            host.wait_for(PASSES, 6.0)
            with self.assertLogs("sriov_rt.labels", "WARNING") as logged:
                host.wait_for(STALE, 8.0 + WATCH_S + STALE_AFTER_S + 3.0)
            self.assertIn("renew its certificate", "".join(logged.output))
            user.rotate(3600)
            host.wait_for(PASSES, RECOVERY_S)

    def test_a_token_that_is_revoked_and_replaced(self) -> None:
        self.label("true")
        self.kube.agents.grant(self.name)
        user = self.kube.agents.with_token(self.name)
        with self.following(
            user,
            api_server=self.kube.server.url,
            token_file=str(user.directory / "token"),
            ca_file=str(user.directory / "ca.crt"),
        ) as host:
            host.wait_for(PASSES, RECOVERY_S)
            # The old one is refused from now on; the file has the new one.
            user.rotate()
            host.stays(PASSES, 2 * WATCH_S)
            self.label(None)
            host.wait_for(MISMATCH, 5.0)

    def test_rights_that_are_withdrawn_and_granted(self) -> None:
        self.label("true")
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S)
            with self.assertLogs("sriov_rt.labels", "WARNING") as logged:
                self.kube.agents.withdraw(self.name)
                host.wait_for(STALE, WATCH_S + STALE_AFTER_S + 3.0)
            self.assertIn("let it get, list and watch", "".join(logged.output))
            self.kube.agents.grant(self.name)
            host.wait_for(PASSES, RECOVERY_S)

    def test_a_node_that_is_deleted_and_comes_back(self) -> None:
        self.label("true")
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S)
            self.kube.nodes.delete(self.name)
            host.stays(PASSES, 2.0)
            host.wait_for(STALE, STALE_AFTER_S + 3.0)
            self.kube.nodes.create(self.name)
            # A Node that NFD has not found yet tells nothing either.
            host.stays(STALE, 2.0)
            self.label("true")
            host.wait_for(PASSES, 5.0)

    def test_all_labels_of_nfd_gone_at_once(self) -> None:
        self.label("true")
        with self.following() as host:
            host.wait_for(PASSES, RECOVERY_S)
            self.kube.nodes.label(
                self.name,
                {CARD: None, "feature.node.kubernetes.io/memory-numa": None},
            )
            host.stays(PASSES, 2.0)
            host.wait_for(STALE, STALE_AFTER_S + 3.0)
            self.label(None)
            host.wait_for(MISMATCH, 5.0)


class DiscoveryTest(KubernetesTestCase):
    """What a real nfd-worker sees, told by a real nfd-master."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.kube.install_nfd()

    def setUp(self) -> None:
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.name = self.node(self._testMethodName.replace("_", "-")[5:45])
        self.tree = self.kube.tree(self.name)
        self.kube.start_worker(self.name, self.tree, interval=1.0)
        self.addCleanup(self.kube.nfd.stop_worker, self.name)

    def host(self, root: pathlib.Path | None = None) -> Live:
        self.kube.agents.grant(self.name)
        user = self.kube.agents.with_certificate(self.name)
        kubeconfig = str(user.kubeconfig)
        return Live(self.name, self.place, root, kubeconfig=kubeconfig)

    def test_a_card_comes_and_goes(self) -> None:
        host = self.host()
        with host.running():
            host.wait_for(PASSES, 30.0, "kernel-version.major")
            host.wait_for(MISMATCH, 1.0)
            self.tree.plug(Card())
            came_s = host.wait_for(PASSES, 10.0)
            self.tree.unplug(Card())
            went_s = host.wait_for(MISMATCH, 10.0)
            LOG.info("a card: came in %.1f s, went in %.1f s", came_s, went_s)
            # With the operators' configuration, which asks for it.
            self.tree.set_kernel_options({"PREEMPT_RT": "y"})
            host.wait_for(PASSES, 10.0, "kernel-config.PREEMPT_RT=true")

    def test_nfd_believes_the_agents_feature_file(self) -> None:
        # The agent reads the /sys that the worker does.
        for name in ("isolated", "nohz_full"):
            path = self.tree.root / "sys/devices/system/cpu" / name
            path.write_text("1\n")
        host = self.host(self.tree.root)
        host.set("labels", feature_file=True)
        key = "feature.node.kubernetes.io/sriov-rt.cpus.isolated"
        with host.running():
            self.kube.nodes.wait_for_label(self.name, key, "1", 30.0)
            # To the agent it is an echo.
            host.wait_for(MISMATCH, 1.0, "sriov-rt.cpus.isolated=1")
        self.kube.nodes.wait_for_label(self.name, key, None, 30.0)

    def test_a_feature_file_is_read_here_and_by_nfd(self) -> None:
        host = self.host(self.tree.root)
        with host.running():
            host.wait_for(PASSES, 30.0, "kernel-version.major")
            self.tree.write_features("site", "rack=r7\nfast\n")
            host.wait_for(PASSES, 5.0, "rack=r7,fast=true")
            self.kube.nodes.wait_for_label(
                self.name, "feature.node.kubernetes.io/rack", "r7", 30.0
            )
