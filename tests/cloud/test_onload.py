# SPDX-License-Identifier: Apache-2.0

"""Onload flavors on a compute host of containers, through Nova.

The host has stand-ins for all of Onload (onload_host): it is injected, and
nothing is accelerated. Its NICs stand for real ones, too (container_world).
"""

import base64
import concurrent.futures
import json
import time

from tests.cloud import onload_base
from tests.cloud.base import NO_VALID_HOST
from tests.cloud.base import SCHEDULER_LOG
from tests.cloud.base import say
from tests.cloud.onload_base import COMPUTE_LOG
from tests.cloud.onload_base import EVIL
from tests.cloud.onload_base import ONLOAD
from tests.cloud.onload_base import OnloadTestCase
from tests.cloud.onload_base import environment
from tests.cloud.same_host import NOTICE
from tests.cloud.same_host import SameHostTestCase
from tests.cloud.scheduler import explain
from tests.periodic import periodic
from tests.periodic import wanted
from tests.testbed import container_image
from tests.testbed.services import LXC

#: What a tenant would have to be obeyed in to change any of it.
_HOSTILE = {"LD_PRELOAD": EVIL, "EF_POLL_USEC": "0", "EF_LD_PRELOAD": EVIL}


def setUpModule() -> None:
    """Let the host join, once for all tests; a skipped one comes here too."""
    if wanted():
        onload_base.join()


# They need a host of containers; tests/functional has all of it on real LXC,
# libvirt and Nova in process.
@periodic
class TestInjection(OnloadTestCase):
    """What an instance with an Onload flavor is made of."""

    def test_only_a_host_with_onload_passes(self) -> None:
        asks = self.flavor(ONLOAD, ram=64)
        done = explain(self, asks, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        verdicts = {each["host"]: each for each in json.loads(done.stdout)}
        self.assertEqual([], verdicts.pop(LXC)["reasons"])
        self.assertNotEqual({}, verdicts)
        for host, each in verdicts.items():
            codes = {found["code"] for found in each["reasons"]}
            self.assertIn("onload_unusable", codes, host)
        done = explain(self, asks)
        say(f"explain:\n{done.stdout}")

    def test_a_profile_that_no_operator_allows(self) -> None:
        other = {**ONLOAD, "sriov_rt:onload_profile": "latency-best"}
        self.assert_no_host(self.flavor(other), "onload_profile_missing")

    def test_an_instance_starts_with_the_preload(self) -> None:
        port = self.port()
        server = self.boot_on(
            LXC,
            self.flavor(ONLOAD, ram=64),
            image=self.image,
            ports=[port],
        )
        self.assert_injected(server)
        (found,) = self.sriov_rt("vif", "show")
        self.assertEqual(
            (port, server.id, "macvlan"),
            (found["port"], found["owner"], found["kind"]),
        )
        say(f"its port: {json.dumps(found)}")
        self.delete(server.id)
        self.assertEqual([], self.sriov_rt("vif", "show"))
        self.assertEqual([], self.sriov_rt("onload", "status")["processes"])
        self.assert_nothing_left(LXC)

    def test_nothing_of_a_tenant_changes_it(self) -> None:
        script = "".join(f"export {n}={v}\n" for n, v in _HOSTILE.items())
        user_data = base64.b64encode(f"#!/bin/sh\n{script}".encode())
        image = self.upload(
            container_image.build,
            {
                **_HOSTILE,
                "sriov_rt:onload": "off",
                "os_command_line": "init=/bin/sleep LD_PRELOAD=",
            },
        )
        server = self.boot_on(
            LXC,
            self.flavor(ONLOAD, ram=64),
            image=image,
            ports=[self.port()],
            fields={
                "metadata": {**_HOSTILE, "sriov_rt_onload": "off"},
                "user_data": user_data.decode(),
            },
        )
        self.assert_injected(server)
        self.delete(server.id)
        self.assert_nothing_left(LXC)


@periodic
class TestImages(OnloadTestCase):
    """Images into which nothing would be preloaded."""

    def test_an_image_of_musl_is_refused_with_its_reason(self) -> None:
        image = self.upload(container_image.build_musl)
        server = self.boot(
            self.flavor(ONLOAD, ram=64), image=image, ports=[self.port()]
        )
        self.assertEqual("ERROR", server.status, server.host)
        self.assertIn("musl", server.fault)
        say(f"refused: {server.fault}")
        self.assertEqual([], self.sriov_rt("onload", "status")["processes"])
        self.delete(server.id)
        self.assert_nothing_left(LXC)


@periodic
class TestSameHost(SameHostTestCase):
    """Accelerated instances of one network, of which a NIC takes one."""

    #: Requests at once.
    REQUESTS = 20

    def test_a_network_is_full_when_each_nic_has_one(self) -> None:
        servers = [self.create() for _ in range(self.NICS)]
        self.assert_active(servers)
        log = self.log(SCHEDULER_LOG)
        more = self.create()
        self.assert_refused(more, log)
        self.delete(more.id)
        # The NIC of one that has gone takes another.
        self.delete(servers.pop().id)
        servers.append(self.create_when_told())
        self.assert_active(servers)
        self.delete_all(servers)

    def test_of_many_at_once_as_many_as_there_are_nics(self) -> None:
        log, compute = self.log(SCHEDULER_LOG), self.log(COMPUTE_LOG)
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.REQUESTS) as pool:
            made = [pool.submit(self.create) for _ in range(self.REQUESTS)]
            servers = [each.result() for each in made]
        active = [each for each in servers if each.status == "ACTIVE"]
        say(
            f"{len(active)} of {len(servers)} ACTIVE on {self.NICS} NICs "
            f"after {time.monotonic() - began:.1f} s"
        )
        self.assert_active(active)
        late, crowded = 0, 0
        for each in servers:
            if each in active:
                continue
            self.assertEqual("ERROR", each.status)
            if compute.lines(each.id, "onload_same_host"):
                # The scheduler did not know of the port before it yet: the
                # compute host has the last word, as in Nova's server groups.
                late += 1
            elif not log.lines(each.id, "onload_same_host × 1"):
                # Those before it had claimed the CPUs of the host: Placement
                # did not name it.
                self.assertIn(NO_VALID_HOST, each.fault)
                crowded += 1
        say(
            f"of the others {late} were refused by the compute host, and "
            f"{crowded} found none with room"
        )
        self.delete_all(servers)

    def test_the_next_one_runs_over_the_kernel_if_that_is_wanted(self) -> None:
        self.allow_unaccelerated()
        servers = [self.create() for _ in range(self.NICS + 1)]
        self.assertEqual(
            [("ACTIVE", LXC)] * len(servers),
            [(each.status, each.host) for each in servers],
            [each.fault for each in servers],
        )
        for each in servers[:-1]:
            self.assert_injected(each)
            self.assertNotIn(NOTICE, self.metadata(each))
        last = servers[-1]
        self.assertEqual({}, environment(self.init(last)))
        self.assertEqual("unaccelerated", self.metadata(last)[NOTICE])
        shown = {e["owner"]: e for e in self.sriov_rt("vif", "show")}
        self.assertEqual(
            {each.id: each is not last for each in servers},
            {owner: each["accelerated"] for owner, each in shown.items()},
        )
        say(f"over the kernel: {json.dumps(shown[last.id])}")
        self.delete_all(servers)
