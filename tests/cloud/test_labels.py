# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""A flavor that follows a label of a real Kubernetes Node."""

import json
import pathlib
import time
from typing import ClassVar

from tests.cloud.base import AGENT
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.cloud.logs import Log
from tests.testbed import errors
from tests.testbed import ini
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.host_tree import Card
from tests.testbed.kube.host_tree import HostTree
from tests.testbed.services import STD
from tests.testbed.waiting import wait_for

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
LABEL_SECONDS = 60.0
#: Seconds from the agent's start until it has observed.
START_SECONDS = 60.0


class TestNodeLabels(CloudTestCase):
    """std-1 is a Node, too, of a control plane in the cloud's namespaces.

    Its own NICs are left out of it: nfd-worker sees a machine of the test.
    """

    kube: ClassVar[Kube]
    tree: ClassVar[HostTree]

    @classmethod
    def setUpClass(cls) -> None:
        """Make the Node, and let the agent of std-1 follow it."""
        super().setUpClass()
        place = cls.cloud.place
        cls.kube = Kube(place)
        if not cls.kube.programs.built:
            raise errors.TestbedError(
                "there is no network to build Kubernetes from in here; run "
                "`python3 -m tests.testbed.kube prepare` outside first"
            )
        began = time.monotonic()
        cls.addClassCleanup(cls.kube.stop)
        cls.kube.start()
        cls.kube.install_nfd()
        cls.kube.nodes.create(STD)
        cls.tree = cls.kube.tree(STD)
        cls.kube.start_worker(STD, cls.tree)
        cls.kube.nodes.wait_for_label(STD, DISCOVERED, "debian", LABEL_SECONDS)
        cls.follow()
        say(f"{STD} is a Node after {time.monotonic() - began:.1f} s")

    @classmethod
    def follow(cls) -> None:
        """Give the agent of std-1 its label source until the tests end."""
        cls.kube.agents.grant(STD)
        user = cls.kube.agents.with_certificate(STD)
        options: dict[str, ini.Section] = {
            "labels": {
                "sources": "kubernetes",
                "stale_after": STALE_AFTER,
                "store": cls.kube.place.data / "labels.json",
            },
            "kubernetes": {
                "kubeconfig": user.kubeconfig,
                "watch_timeout": WATCH,
                "max_backoff": BACKOFF,
            },
        }
        file = cls.cloud.place.etc / "sriov-rt" / "agent.conf"
        before = file.read_text()
        cls.addClassCleanup(cls.configure, file, before)
        cls.configure(file, before + ini.render(options))

    @classmethod
    def configure(cls, file: pathlib.Path, text: str) -> None:
        """Start the agent of std-1 anew with another configuration.

        :param file: its configuration file.
        :param text: what shall be in it.
        """
        cls.cloud.services.stop(AGENT)
        file.write_text(text)
        log = Log.from_now(cls.cloud.place.log / AGENT_LOG)
        cls.cloud.services.start(AGENT)
        wait_for(
            f"{AGENT} on {STD} observes",
            lambda: log.lines("facts changed: "),
            timeout=START_SECONDS,
        )

    def setUp(self) -> None:
        """Make a flavor that asks for the card, which std-1 has not."""
        super().setUp()
        self.asks = self.flavor(SOLARFLARE)
        self.wait_reasons("labels_mismatch")

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
        self.addCleanup(self.kube.start_api_server)
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
        """Let the card appear until the test ends, and wait for the agent."""
        self.addCleanup(self.unplug)
        self.tree.plug(Card())
        self.kube.nodes.wait_for_label(STD, LABEL, "true", LABEL_SECONDS)
        seconds = self.wait_reasons()
        say(f"told {seconds:.1f} s after the label came")

    def unplug(self) -> None:
        """Let the card go, if it is there, and wait for the agent."""
        if not self.tree.has(Card()):
            return
        self.tree.unplug(Card())
        self.kube.nodes.wait_for_label(STD, LABEL, None, LABEL_SECONDS)
        seconds = self.wait_reasons("labels_mismatch")
        say(f"told {seconds:.1f} s after the label went")

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
        done = self.explain(self.asks, "--json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        (found,) = (
            each["reasons"]
            for each in json.loads(done.stdout)
            if each["host"] == STD
        )
        return tuple(each["code"] for each in found)
