# SPDX-License-Identifier: Apache-2.0

"""An agent that follows a real Node, and a scheduler that hears it."""

import contextlib
import pathlib
import time
import types
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from unittest import mock

from oslo_config import cfg
from oslo_messaging import conffixture
from oslo_messaging._drivers import impl_fake

from sriov_rt import request
from sriov_rt.agent import assembly
from sriov_rt.agent import options
from sriov_rt.kubernetes.options import KUBERNETES_OPTS
from sriov_rt.scheduler.worker import Worker
from sriov_rt.service import uevents

#: Every time of the agent, short: seconds.
STALE_AFTER_S = 8.0
WATCH_S = 3
READ_S = 2.0
DEBOUNCE_S = 0.05

#: What a machine that does much else may take beyond a limit, seconds.
SLACK_S = 30.0

CARD = "feature.node.kubernetes.io/pci-1924.present"
WANTS_CARD = "pci-1924.present=true"


class Live:
    """Both of them in this process, over oslo.messaging's fake driver.

    The agent's root is empty unless another one is named: every label that
    it has comes from a source.

    :param node: the Node, which the host is named for.
    :param place: an empty directory of the test.
    :param root: of the host.
    :param settings: options of ``[kubernetes]``.
    """

    def __init__(
        self,
        node: str,
        place: pathlib.Path,
        root: pathlib.Path | None = None,
        **settings: Any,
    ) -> None:
        self.node = node
        self.crashes = 0
        self.conf = cfg.ConfigOpts()
        options.register(self.conf)
        self.conf.register_opts(KUBERNETES_OPTS, group="kubernetes")
        self.conf([])
        if root is None:
            root = place / "root"
            random = root / "proc/sys/kernel/random"
            random.mkdir(parents=True)
            (random / "boot_id").write_text("boot-1")
        self.conf.set_override("host", node)
        self.set(
            "agent",
            root=str(root),
            observe_interval=0.5,
            heartbeat_interval=0.5,
            report_spread=0.0,
            publish_traits=False,
            stop_timeout=2.0,
        )
        self.set(
            "labels",
            sources=["nfd_local", "kubernetes"],
            stale_after=STALE_AFTER_S,
            debounce=DEBOUNCE_S,
            store=str(place / "labels.json"),
        )
        self.set(
            "kubernetes",
            connect_timeout=READ_S,
            read_timeout=READ_S,
            watch_timeout=WATCH_S,
            max_backoff=1.0,
            **settings,
        )
        self.agent: Any = None
        self.worker: Any = None

    def set(self, group: str, **values: Any) -> None:
        """Change options, before the agent starts."""
        for name, value in values.items():
            self.conf.set_override(name, value, group=group)

    @contextlib.contextmanager
    def running(self) -> Iterator["Live"]:
        """Run both."""
        with contextlib.ExitStack() as stack:
            # Fake transports share their queues; the first one that closes
            # would empty them for the other.
            stack.callback(impl_fake.FakeExchangeManager.cleanup)
            stack.enter_context(
                mock.patch.object(impl_fake.FakeExchangeManager, "cleanup")
            )
            # What happens to this machine's devices is not part of it.
            stack.enter_context(
                mock.patch.object(
                    uevents, "open_socket", side_effect=PermissionError
                )
            )
            messaging = conffixture.ConfFixture(self.conf, "fake://")
            messaging.setUp()
            stack.callback(messaging.cleanUp)
            self.worker = Worker(self.conf)
            self.worker.start()
            stack.callback(self.worker.stop)
            self.start_agent()
            stack.callback(self.stop_agent)
            yield self
        assert not self.crashes, "a thread of the agent crashed"

    def start_agent(self) -> None:
        """Start the agent; it may have run before."""
        self.agent = assembly.assemble(self.conf, self._crashed)
        self.agent.start()

    def stop_agent(self) -> None:
        """Stop it cleanly."""
        self.agent.stop()

    def codes(self, selector: str = WANTS_CARD) -> tuple[str, ...]:
        """Return what the scheduler's filter holds against the host."""
        return tuple(each.code for each in self.reasons(selector))

    def reasons(self, selector: str = WANTS_CARD) -> Any:
        """Return the Reasons of a flavor with a node selector."""
        asked = request.parse({"sriov_rt:node_selector": selector})
        host = types.SimpleNamespace(host=self.node, nodename=self.node)
        return self.worker.verdicts.why_not(asked, host)

    def wait_for(
        self,
        expected: tuple[str, ...],
        seconds: float,
        selector: str = WANTS_CARD,
    ) -> float:
        """Wait until the filter says so; return the seconds that it took.

        :param seconds: that it should take, at most.
        :raises AssertionError: if it does not in time.
        """
        return wait(
            lambda: self.codes(selector) == expected,
            seconds + SLACK_S,
            lambda: f"{self.codes(selector)} is not {expected}",
        )

    def stays(
        self,
        expected: tuple[str, ...],
        seconds: float,
        selector: str = WANTS_CARD,
    ) -> None:
        """See that the filter says so all along.

        :raises AssertionError: if it once does not.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.codes(selector)
            assert found == expected, f"{found} is not {expected}"
            time.sleep(0.05)

    def _crashed(self) -> None:
        self.crashes += 1


def wait(
    probe: Callable[[], bool], seconds: float, why: Callable[[], str]
) -> float:
    """Wait until a probe holds; return the seconds that it took.

    :raises AssertionError: with a reason, if it does not in time.
    """
    began = time.monotonic()
    while not probe():
        assert time.monotonic() - began < seconds, (
            f"not within {seconds} s: {why()}"
        )
        time.sleep(0.01)
    return time.monotonic() - began
