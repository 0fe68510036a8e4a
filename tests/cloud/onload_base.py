# SPDX-License-Identifier: Apache-2.0

"""What the tests of Onload on the cloud have in common."""

import json
import pathlib
import unittest
import uuid
from typing import Any
from typing import ClassVar

from tests.cloud import onload_host
from tests.cloud.base import LOGS
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.testbed import container_config
from tests.testbed import container_host
from tests.testbed import container_image
from tests.testbed import seed
from tests.testbed.cloud import Cloud
from tests.testbed.servers import Server
from tests.testbed.services import LXC

#: The trait of a host on which Onload can be used.
TRAIT = "CUSTOM_SRIOV_RT_ONLOAD"
ONLOAD = {
    "sriov_rt:onload": "required",
    "sriov_rt:onload_profile": onload_host.PROFILE,
}
#: What a port asks for that is no VF of its own.
NORMAL = {"binding_vnic_type": "normal"}
SUBNET = "10.78.0.0/24"
COMPUTE_LOG = f"{LXC}/nova-compute.log"

#: Seconds until the control plane knows what the host was given.
FACTS_SECONDS = 180.0
CONSOLE_SECONDS = 180.0

#: What the init of each instance has of the preload and of Onload.
ENVIRONMENT = {"LD_PRELOAD": onload_host.LIBRARY, **onload_host.VARIABLES}

#: No library: nothing may ever load it.
EVIL = "/tmp/evil.so"


def join() -> None:
    """Let the host of containers join, with stand-ins, for a module's tests.

    :raises errors.TestbedError: when it doesn't come up.
    """
    cloud = Cloud()
    if cloud.join_containers():
        unittest.addModuleCleanup(cloud.leave_containers)
    onload_host.equip(cloud.containers)


class OnloadTestCase(CloudTestCase):
    """A test on a host of containers that has joined."""

    logs = (
        *LOGS,
        COMPUTE_LOG,
        f"{LXC}/sriov-rt-agent.log",
        f"{LXC}/libvirtd.log",
    )
    image: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Make an image."""
        super().setUpClass()
        cls.image = cls.upload(container_image.build)

    def setUp(self) -> None:
        """Make a network, and see that Onload is known and nothing left."""
        super().setUp()
        self.assert_nothing_left(LXC)
        # Of another test's the host may still tell that it is in use.
        self.network = seed.network_on(
            self.cloud.api,
            f"onload-{uuid.uuid4().hex[:8]}",
            container_config.POOL_NETWORK,
            SUBNET,
        )
        self.addCleanup(self.cloud.api.network.delete_network, self.network)
        self.wait_for(
            f"{LXC} has the trait of Onload",
            lambda: TRAIT in self.cloud.traits(LXC),
            timeout=FACTS_SECONDS,
        )

    def port(self) -> str:
        """Make a port that is deleted after the test; its id."""
        made = self.cloud.create_port(
            container_config.POOL_NETWORK, network_id=self.network, **NORMAL
        )
        self.addCleanup(self.cloud.api.network.delete_port, made)
        return made

    def init(self, server: Server) -> pathlib.Path:
        """Return the directory in /proc of a container's first process.

        :param server: the container.
        """
        # The id of a container's domain is the process that watches it.
        watcher = self.cloud.containers.run(
            *("virsh", "--connect", container_host.URI, "domid"), server.domain
        ).strip()
        children = pathlib.Path(f"/proc/{watcher}/task/{watcher}/children")
        (pid,) = children.read_text().split()
        return pathlib.Path("/proc", pid)

    def sriov_rt(self, *arguments: str) -> Any:
        """Return the JSON that our command prints on the host.

        :param arguments: as in ("vif", "show").
        """
        program = self.cloud.env.program("sriov-rt")
        return json.loads(
            self.cloud.containers.run(program, *arguments, "--json")
        )

    def assert_injected(self, server: Server) -> None:
        """Check what a container's processes have, and what is told of it.

        :param server: the container.
        """
        init = self.init(server)
        self.assertEqual(ENVIRONMENT, environment(init))
        self.assertIn(f" {onload_host.LIBRARY}\n", (init / "maps").read_text())
        for name in onload_host.DEVICES:
            node = init / "root" / "dev" / name
            self.assertTrue(node.is_char_device(), node)
        console = self.cloud.servers.wait_console(
            server.id, container_image.DONE, timeout=CONSOLE_SECONDS
        )
        self.assertIn(
            f"stand-in for libonload.so: {container_image.SOCKETS} socket",
            console,
        )
        self.assertNotIn(EVIL, console)
        told = self.sriov_rt("onload", "status")["processes"]
        (found,) = (each for each in told if each["pid"] == int(init.name))
        self.assertEqual(server.id, found["instance"])
        say(f"{server.id}: {json.dumps(found)}")
        self.assertEqual(
            ("injected", True), (found["state"], found["stand_in"])
        )
        self.assertIn("not accelerated", found["message"])


def environment(process: pathlib.Path) -> dict[str, str]:
    """Return the preload and Onload's variables of a process.

    :param process: its directory in /proc.
    """
    words = (process / "environ").read_bytes().decode().split("\0")
    found = dict(each.partition("=")[::2] for each in words if each)
    return {
        name: text
        for name, text in found.items()
        if name.startswith(("LD_", "EF_"))
    }
