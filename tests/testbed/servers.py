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

"""Servers: boot them, watch them, read their consoles, delete them."""

import dataclasses
import json
import types
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tests.testbed import seed
from tests.testbed.errors import HttpError
from tests.testbed.rest import Rest
from tests.testbed.waiting import wait_for

#: From the request to ACTIVE or ERROR, on a busy machine.
BOOT_SECONDS = 900.0
#: Until a guest that is emulated twice over says that it is up.
CONSOLE_SECONDS = 900.0

_NO_FIELDS: Mapping[str, object] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Server:
    """What Nova says about a server.

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
    def of(cls, answer: Mapping[str, Any]) -> "Server":
        """Read the answer of Nova's API.

        :param answer: the object `server` of GET /servers/ID.
        """
        return cls(
            id=answer["id"],
            name=answer["name"],
            status=answer["status"],
            host=answer["OS-EXT-SRV-ATTR:host"] or "",
            domain=answer["OS-EXT-SRV-ATTR:instance_name"],
            fault=answer.get("fault", {}).get("message", ""),
        )


class Servers:
    """The servers of a cloud.

    :param api: the cloud.
    """

    def __init__(self, api: Rest) -> None:
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
        :returns: the server as it is then, in ERROR too.
        :raises errors.HttpError: when Nova's API refuses.
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
        :param fields: more of the request, as in {"metadata": {...}}.
        :raises errors.HttpError: when Nova's API refuses.
        """
        body = {
            **fields,
            "name": name,
            "flavorRef": self._api.identify("nova-api", "flavors", flavor),
            "imageRef": self._api.identify("glance", "images", image),
            "networks": [{"port": port} for port in ports] or "none",
        }
        made = self._api.post("nova-api", "/servers", {"server": body})
        return str(made["server"]["id"])

    def get(self, server: str) -> Server:
        """Return a server as it is now.

        :param server: its id.
        :raises errors.HttpError: with status 404 when there is none.
        """
        answer = self._api.get("nova-api", f"/servers/{server}")
        return Server.of(answer["server"])

    def wait(
        self,
        server: str,
        statuses: Sequence[str] = ("ACTIVE", "ERROR"),
        *,
        timeout: float = BOOT_SECONDS,
    ) -> Server:
        """Wait until a server has one of some statuses and no task.

        :param server: its id.
        :param statuses: the statuses.
        :param timeout: seconds to wait.
        :raises errors.TimedOut: when it has none of them.
        """

        def settled() -> bool:
            answer = self._api.get("nova-api", f"/servers/{server}")["server"]
            return (
                answer["status"] in statuses
                and answer["OS-EXT-STS:task_state"] is None
            )

        wait_for(
            f"server {server} is {' or '.join(statuses)}",
            settled,
            timeout=timeout,
            interval=0.5,
        )
        return self.get(server)

    def act(
        self,
        server: str,
        action: str,
        options: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Ask Nova to do something with a server.

        :param server: its id.
        :param action: as in "reboot" or "rescue".
        :param options: the action's object.
        :param headers: as in another API version's.
        """
        return self._api.call(
            "POST",
            "nova-api",
            f"/servers/{server}/action",
            json.dumps({action: options}).encode(),
            headers,
        )

    def delete(self, server: str, *, timeout: float = BOOT_SECONDS) -> None:
        """Delete a server and wait until it is gone.

        :param server: its id.
        :param timeout: seconds to wait.
        :raises errors.TimedOut: when it stays.
        """
        self._api.delete("nova-api", f"/servers/{server}")
        wait_for(
            f"server {server} is gone",
            lambda: self._gone(server),
            timeout=timeout,
            interval=0.5,
        )

    def console(self, server: str) -> str:
        """Return what a server has printed on its console.

        :param server: its id.
        """
        output = self.act(server, "os-getConsoleOutput", {})["output"]
        return str(output or "")

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
        )
        return self.console(server)

    def _gone(self, server: str) -> bool:
        try:
            self.get(server)
        except HttpError as error:
            if error.status == 404:
                return True
            raise
        return False
