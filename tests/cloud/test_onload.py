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


"""Onload flavors on a compute host of containers, through Nova.

The host has stand-ins for all of Onload (onload_host): it is injected, and
nothing is accelerated. Its NICs stand for real ones, too (container_world).
"""

import base64
import json

from tests.cloud import onload_base
from tests.cloud.base import say
from tests.cloud.onload_base import EVIL
from tests.cloud.onload_base import ONLOAD
from tests.cloud.onload_base import OnloadTestCase
from tests.cloud.scheduler import explain
from tests.testbed import container_image
from tests.testbed.services import LXC

#: What a tenant would have to be obeyed in to change any of it.
_HOSTILE = {"LD_PRELOAD": EVIL, "EF_POLL_USEC": "0", "EF_LD_PRELOAD": EVIL}


def setUpModule() -> None:
    """Let the host join, once for all tests."""
    onload_base.join()


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
