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

"""The cloud's HTTP interfaces, with the standard library."""

import json
import pathlib
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from tests.testbed import errors
from tests.testbed import network
from tests.testbed import settings

_SECONDS = 60.0
#: Paths that come before the ones in OpenStack's API references.
_PREFIXES = {
    "keystone": "/v3",
    "glance": "/v2",
    "neutron": "/v2.0",
    "nova-api": "/v2.1",
    "placement": "",
}
_VERSION_HEADERS = {
    "OpenStack-API-Version": "compute 2.96, placement 1.39",
}


class Rest:
    """Talks to all services as the cloud's administrator."""

    def __init__(self) -> None:
        self._token = ""

    def get(self, service: str, path: str) -> Any:
        """Return what a service says.

        :param service: a key of network.PORTS, as in "nova-api".
        :param path: as in the API reference, as in "/servers/detail".
        :raises errors.HttpError: when it refuses.
        :raises OSError: when it doesn't answer.
        """
        return self.call("GET", service, path)

    def post(self, service: str, path: str, body: object) -> Any:
        """Create something.

        :param service: a key of network.PORTS.
        :param path: as in the API reference.
        :param body: what is sent as JSON.
        :raises errors.HttpError: when the service refuses.
        :raises OSError: when it doesn't answer.
        """
        return self.call("POST", service, path, json.dumps(body).encode())

    def put(self, service: str, path: str, body: object = None) -> Any:
        """Replace something.

        :param service: a key of network.PORTS.
        :param path: as in the API reference.
        :param body: what is sent as JSON; nothing when None.
        :raises errors.HttpError: when the service refuses.
        :raises OSError: when it doesn't answer.
        """
        data = None if body is None else json.dumps(body).encode()
        return self.call("PUT", service, path, data)

    def delete(self, service: str, path: str) -> None:
        """Delete something.

        :param service: a key of network.PORTS.
        :param path: as in the API reference.
        :raises errors.HttpError: when the service refuses.
        :raises OSError: when it doesn't answer.
        """
        self.call("DELETE", service, path)

    def upload(self, path: str, file: pathlib.Path) -> None:
        """Send the bytes of an image to Glance.

        :param path: as in "/images/ID/file".
        :param file: the bytes.
        :raises errors.HttpError: when Glance refuses.
        :raises OSError: when it doesn't answer.
        """
        self.call(
            "PUT",
            "glance",
            path,
            file.read_bytes(),
            {"Content-Type": "application/octet-stream"},
        )

    def identify(self, service: str, kind: str, name: str) -> str:
        """Return the id of the one thing of a kind that has a name.

        :param service: a key of network.PORTS.
        :param kind: as in "flavors".
        :param name: its name.
        :raises errors.TestbedError: when there is none, or more than one.
        """
        listed = self.get(service, f"/{kind}?limit=1000")[kind]
        found = [each["id"] for each in listed if each["name"] == name]
        if len(found) != 1:
            raise errors.TestbedError(
                f"{len(found)} {kind} are named {name}, not one"
            )
        return str(found[0])

    def call(
        self,
        method: str,
        service: str,
        path: str,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Make one request, with a fresh token if the old one is refused.

        :param method: as in "PATCH".
        :param service: a key of network.PORTS.
        :param path: as in the API reference.
        :param data: what is sent.
        :param headers: beside those of every request.
        :returns: the JSON of the answer, None without one.
        :raises errors.HttpError: when the service refuses.
        :raises OSError: when it doesn't answer.
        """
        url = network.url(service) + _PREFIXES[service] + path
        for last in (False, True):
            if not self._token:
                self._token = _sign_in()
            try:
                return _request(
                    method,
                    url,
                    data,
                    {
                        "Content-Type": "application/json",
                        "X-Auth-Token": self._token,
                        **_VERSION_HEADERS,
                        **(headers or {}),
                    },
                )[1]
            except errors.HttpError as error:
                if error.status != 401 or last:
                    raise
                self._token = ""
        raise AssertionError("unreachable")


def answers(url: str) -> bool:
    """Whether an HTTP server says anything but a server error.

    :param url: what is asked for.
    """
    try:
        _request("GET", url, None, {})
    except errors.HttpError as error:
        return error.status < 500
    except OSError:
        return False
    return True


def _sign_in() -> str:
    user = {
        "name": "admin",
        "domain": {"id": "default"},
        "password": settings.PASSWORD,
    }
    body = {
        "auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {
                "project": {"name": "admin", "domain": {"id": "default"}}
            },
        }
    }
    headers, _ = _request(
        "POST",
        network.url("keystone") + "/v3/auth/tokens",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    return headers["X-Subject-Token"]


def _request(
    method: str, url: str, data: bytes | None, headers: Mapping[str, str]
) -> tuple[Mapping[str, str], Any]:
    request = urllib.request.Request(
        url, data=data, headers=dict(headers), method=method
    )
    # A proxy of the machine can't reach the cloud's own network.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_SECONDS) as response:
            text = response.read()
            kind = response.headers.get("Content-Type", "")
            parsed = json.loads(text) if text and "json" in kind else None
            return response.headers, parsed
    except urllib.error.HTTPError as error:
        body = error.read().decode(errors="replace")
        raise errors.HttpError(method, url, error.code, body) from error
