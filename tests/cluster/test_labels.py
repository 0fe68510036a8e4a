# SPDX-License-Identifier: Apache-2.0

"""A flavor that follows a label of a real Kubernetes Node."""

import json
import pathlib
import time

from tests.cloud.base import AGENT
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.cloud.scheduler import explain
from tests.testbed import errors
from tests.testbed import ini
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.host_tree import Card
from tests.testbed.services import STD

#: Nova knows nothing of it: only our filter keeps it off a host.
SOLARFLARE = {"sriov_rt:node_selector": "pci-1924.present=true"}
LABEL = "feature.node.kubernetes.io/pci-1924.present"
#: A label of the machine that nfd-worker sees, card or not.
DISCOVERED = "feature.node.kubernetes.io/system-os_release.ID"

AGENT_LOG = f"{AGENT}.log"
#: Options of [labels] and [kubernetes]: an outage is over the limit soon.
STALE_AFTER = 15
WATCH = 4
BACKOFF = 2
#: Seconds from a change of the host to what the agent then tells about it.
#: `explain` itself takes some of them, each time that it is asked.
LABEL_SECONDS = 120.0
#: Seconds from the agent's start until it has observed.
START_SECONDS = 180.0


# tests/kubernetes has the agent at a real API server, tests/functional the
# filter.
class TestNodeLabels(CloudTestCase):
    """std-1 is a Node, too, of a control plane in the cloud's namespaces.

    Its own NICs are left out of it: nfd-worker sees a machine of the test.
    """

    def setUp(self) -> None:
        """Make the Node, let std-1's agent follow it, and make a flavor."""
        super().setUp()
        self.asks = self.flavor(SOLARFLARE)
        # One for each test: NFD needs minutes to come back from an outage.
        self.kube = Kube(self.cloud.place)
        if not self.kube.programs.built:
            raise errors.TestbedError(
                "there is no network to build Kubernetes from in here; run "
                "`python3 -m tests.testbed.kube.programs` outside first"
            )
        began = time.monotonic()
        self.addCleanup(self.kube.stop)
        self.kube.start()
        self.kube.install_nfd()
        self.kube.nodes.create(STD)
        self.tree = self.kube.tree(STD)
        self.kube.start_worker(STD, self.tree)
        self.wait_label(DISCOVERED, "debian")
        self.follow()
        self.wait_reasons("labels_mismatch")
        say(f"{STD} is a Node after {time.monotonic() - began:.1f} s")

    def follow(self) -> None:
        """Give the agent of std-1 its label source until the test ends."""
        self.kube.agents.grant(STD)
        user = self.kube.agents.with_certificate(STD)
        options: dict[str, ini.Section] = {
            "labels": {
                "sources": "kubernetes",
                "stale_after": STALE_AFTER,
                "store": self.kube.place.data / "labels.json",
            },
            "kubernetes": {
                "kubeconfig": user.kubeconfig,
                "watch_timeout": WATCH,
                "max_backoff": BACKOFF,
            },
        }
        file = self.cloud.place.etc / "sriov_rt" / "sriov-rt.conf"
        before = file.read_text()
        self.addCleanup(self.configure, file, before)
        self.configure(file, before + ini.render(options))

    def configure(self, file: pathlib.Path, text: str) -> None:
        """Start the agent of std-1 anew with another configuration.

        :param file: its configuration file.
        :param text: what shall be in it.
        """
        self.cloud.services.stop(AGENT)
        file.write_text(text)
        log = self.log(AGENT_LOG)
        self.cloud.services.start(AGENT)
        self.wait_for(
            f"{AGENT} on {STD} observes",
            lambda: log.lines("facts changed: "),
            timeout=START_SECONDS,
        )

    def test_a_card_comes_and_goes(self) -> None:
        self.assert_no_host(self.asks, "labels_mismatch × 2")
        self.plug()
        self.delete(self.boot_on(STD, self.asks).id)
        self.unplug()
        self.assert_no_host(self.asks, "labels_mismatch × 2")

    def test_an_api_server_that_is_down_for_longer_than_the_limit(
        self,
    ) -> None:
        self.plug()
        log = self.log(AGENT_LOG)
        self.kube.stop_api_server()
        seconds = self.wait_reasons("labels_stale")
        say(f"labels_stale {seconds:.1f} s after the API server was stopped")
        self.assertTrue(log.lines("label source kubernetes: "), log.text)
        self.assert_no_host(
            self.asks, "labels_stale × 1", "labels_mismatch × 1"
        )
        self.kube.start_api_server()
        seconds = self.wait_reasons()
        say(f"the label counts {seconds:.1f} s after the API server is back")
        self.delete(self.boot_on(STD, self.asks).id)

    def plug(self) -> None:
        """Let the card appear, and wait until the agent tells of it."""
        self.tree.plug(Card())
        self.wait_label(LABEL, "true")
        seconds = self.wait_reasons()
        say(f"told {seconds:.1f} s after the label came")

    def unplug(self) -> None:
        """Let the card go, and wait until the agent tells of it."""
        self.tree.unplug(Card())
        self.wait_label(LABEL, None)
        seconds = self.wait_reasons("labels_mismatch")
        say(f"told {seconds:.1f} s after the label went")

    def wait_label(self, key: str, value: str | None) -> None:
        """Wait until a label of the Node has a value.

        :param key: the label.
        :param value: its value; None to wait until it is gone.
        """
        self.kube.nodes.wait_for_label(STD, key, value, LABEL_SECONDS)

    def wait_reasons(self, *codes: str) -> float:
        """Wait until the flavor finds these Reasons on std-1, no others.

        :param codes: of the Reasons; none if it is to pass.
        :returns: seconds waited.
        """
        return self.wait_for(
            f"{STD} has the Reasons {', '.join(codes) or 'none'}",
            lambda: self.reasons() == codes,
            timeout=LABEL_SECONDS,
        )

    def reasons(self) -> tuple[str, ...]:
        """Return the codes of std-1's Reasons, as ``explain`` has them."""
        done = explain(self, self.asks, "--json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        (found,) = (
            each["reasons"]
            for each in json.loads(done.stdout)
            if each["host"] == STD
        )
        return tuple(each["code"] for each in found)
