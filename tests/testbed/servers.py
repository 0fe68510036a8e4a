# SPDX-License-Identifier: Apache-2.0

"""Servers: boot them, watch them, read their consoles, delete them."""

import dataclasses
import types
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from openstack.connection import Connection

from tests.testbed import seed
from tests.testbed.api import UNANSWERED
from tests.testbed.waiting import wait_for

#: Time from the request to ACTIVE or ERROR, on a busy machine.
BOOT_SECONDS = 900.0
#: Time until a guest that is emulated twice reports that it is up.
CONSOLE_SECONDS = 900.0

_NO_FIELDS: Mapping[str, object] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, as Nova describes it.

    :param id: its UUID.
    :param name: its name.
    :param status: as in "ACTIVE" or "ERROR".
    :param host: the compute host that it is on; empty before it has one.
    :param domain: its name in libvirt.
    :param fault: the message of its fault; empty without one.
    """

    id: str
    name: str
    status: str
    host: str
    domain: str
    fault: str

    @classmethod
    def of(cls, answer: Any) -> "Server":
        """Read the answer of Nova's API.

        :param answer: an openstack.compute.v2.server.Server.
        """
        return cls(
            id=answer.id,
            name=answer.name,
            status=answer.status,
            host=answer.compute_host or "",
            domain=answer.instance_name,
            fault=(answer.fault or {}).get("message", ""),
        )


class Servers:
    """The servers of a cloud.

    :param api: the cloud.
    """

    def __init__(self, api: Connection) -> None:
        self._api = api

    def boot(
        self,
        name: str,
        flavor: str,
        *,
        image: str = seed.IMAGE,
        ports: Sequence[str] = (),
        timeout: float = BOOT_SECONDS,
    ) -> Server:
        """Create a server and wait until it is ACTIVE or in ERROR.

        :param name: its name.
        :param flavor: name of its flavor.
        :param image: name of its image.
        :param ports: ids of its ports; no network when empty.
        :param timeout: seconds to wait.
        :returns: the server's final state, even if it is in ERROR.
        :raises openstack.exceptions.HttpException: when Nova refuses.
        :raises errors.TimedOut: when it stays in BUILD.
        """
        server = self.create(name, flavor, image=image, ports=ports)
        return self.wait(server, timeout=timeout)

    def create(
        self,
        name: str,
        flavor: str,
        *,
        image: str = seed.IMAGE,
        ports: Sequence[str] = (),
        fields: Mapping[str, object] = _NO_FIELDS,
    ) -> str:
        """Create a server and return its id at once.

        :param name: its name.
        :param flavor: name of its flavor.
        :param image: name of its image.
        :param ports: ids of its ports; no network when empty.
        :param fields: more fields of the request, as in {"metadata": {...}}.
        :raises openstack.exceptions.HttpException: when Nova refuses.
        """
        flavors, images = self._api.compute, self._api.image
        made = flavors.create_server(
            **fields,
            name=name,
            flavor_id=flavors.find_flavor(flavor, ignore_missing=False).id,
            image_id=images.find_image(image, ignore_missing=False).id,
            networks=[{"port": port} for port in ports] or "none",
        )
        return str(made.id)

    def get(self, server: str) -> Server:
        """Return the current state of a server.

        :param server: its id.
        :raises openstack.exceptions.NotFoundException: when there is none.
        """
        return Server.of(self._api.compute.get_server(server))

    def wait(self, server: str, *, timeout: float = BOOT_SECONDS) -> Server:
        """Wait until a server is ACTIVE or in ERROR, and has no task.

        :param server: its id.
        :param timeout: seconds to wait.
        :raises errors.TimedOut: when it is neither.
        """

        def settled() -> bool:
            answer = self._api.compute.get_server(server)
            return (
                answer.status in ("ACTIVE", "ERROR")
                and answer.task_state is None
            )

        wait_for(
            f"server {server} is ACTIVE or in ERROR",
            settled,
            timeout=timeout,
            interval=0.5,
            unanswered=UNANSWERED,
        )
        return self.get(server)

    def delete(self, server: str, *, timeout: float = BOOT_SECONDS) -> None:
        """Delete a server if it still exists, and wait until it's gone.

        :param server: its id.
        :param timeout: seconds to wait.
        :raises errors.TimedOut: when it stays.
        """
        compute = self._api.compute
        if compute.find_server(server) is None:
            return
        compute.delete_server(server)
        # It is shown as DELETED, which openstacksdk regards as the end, while
        # its host still has to release its resources.
        wait_for(
            f"server {server} is gone",
            lambda: compute.find_server(server) is None,
            timeout=timeout,
            interval=0.5,
            unanswered=UNANSWERED,
        )

    def console(self, server: str) -> str:
        """Return what a server has printed on its console.

        :param server: its id.
        """
        found = self._api.compute.get_server_console_output(server)
        return str(found["output"] or "")

    def wait_console(
        self, server: str, text: str, *, timeout: float = CONSOLE_SECONDS
    ) -> str:
        """Wait until a server's console shows a text.

        :param server: its id.
        :param text: as in guest_image.READY.
        :param timeout: seconds to wait.
        :returns: all of the console.
        :raises errors.TimedOut: when it doesn't.
        """
        wait_for(
            f"the console of {server} shows {text}",
            lambda: text in self.console(server),
            timeout=timeout,
            interval=2,
            unanswered=UNANSWERED,
        )
        return self.console(server)
