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

"""Where the API server is, and who we are to it.

The package ``kubernetes`` finds that out, which knows kubeconfig files and
their plugins, and what a pod is given.
"""

import dataclasses
import os
import pathlib
import socket
from collections.abc import Mapping
from typing import Any

import urllib3
from kubernetes import client
from kubernetes import config
from kubernetes.config import incluster_config

from sriov_rt import exceptions
from sriov_rt.kubernetes import problems

#: How much of others' words for a refusal is kept, in characters.
MAX_MESSAGE = 300

#: A connection whose peer is gone without a word (a gateway that was
#: restarted) is found after 30 + 3 x 10 seconds (tcp(7)).
KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Where and how to ask, as the options name it.

    :param node_name: of the Node.
    :param watch_timeout_s: seconds, whole, that a watch is asked to last.
    """

    node_name: str
    kubeconfig: str | None
    context: str | None
    api_server: str | None
    token_file: str | None
    ca_file: str | None
    connect_timeout_s: float
    read_timeout_s: float
    watch_timeout_s: int


class Connection:
    """The credentials as they were read, and the connections made by them.

    :raises CredentialsUnreadable: if there are none.
    """

    def __init__(self, settings: Settings) -> None:
        configuration = client.Configuration()
        # The package forgets what it read of the environment (35.0).
        configuration.no_proxy = os.environ.get(
            "NO_PROXY", os.environ.get("no_proxy")
        )
        configuration.retries = False
        files = _configure(configuration, settings)
        self._files = {each: _fingerprint(each) for each in files}
        self._url = str(configuration.host).rstrip("/")
        self._configuration = configuration
        self._pool = client.ApiClient(configuration).rest_client.pool_manager
        self._pool.connection_pool_kw["socket_options"] = [
            *urllib3.connection.HTTPConnection.default_socket_options,
            *KEEPALIVE,
        ]

    def is_current(self) -> bool:
        """Tell whether the files are still those that were read."""
        return all(
            _fingerprint(name) == found for name, found in self._files.items()
        )

    def get(
        self, path: str, query: Mapping[str, str], timeout: urllib3.Timeout
    ) -> Any:
        """Make a request and return the answer, of which the body is left."""
        headers = {"Accept": "application/json", "User-Agent": "sriov-rt"}
        for setting in self._configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        return self._pool.request(
            "GET",
            self._url + path,
            fields=query,
            headers=headers,
            timeout=timeout,
            redirect=False,
            preload_content=False,
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()


def _configure(configuration: Any, settings: Settings) -> list[str]:
    """Fill in where the API server is and who we are; return the files.

    :raises CredentialsUnreadable: if that cannot be found out.
    """
    try:
        if settings.kubeconfig:
            files = [settings.kubeconfig]
            config.load_kube_config(
                settings.kubeconfig,
                context=settings.context,
                client_configuration=configuration,
                persist_config=False,
            )
        elif settings.api_server:
            files = _configure_token(configuration, settings)
        else:
            files = [incluster_config.SERVICE_TOKEN_FILENAME]
            config.load_incluster_config(configuration)
    except exceptions.SriovRtError:
        raise
    except Exception as error:
        # The package and its plugins raise anything for a file that they
        # do not understand: KeyError, yaml.YAMLError, binascii.Error.
        raise problems.CredentialsUnreadable(
            f"{type(error).__name__}: {error}"[:MAX_MESSAGE]
        ) from error
    more = (
        configuration.cert_file,
        configuration.key_file,
        configuration.ssl_ca_cert,
    )
    return files + [each for each in more if each and each not in files]


def _configure_token(configuration: Any, settings: Settings) -> list[str]:
    configuration.host = settings.api_server
    configuration.ssl_ca_cert = settings.ca_file
    if not settings.token_file:
        return []
    token = pathlib.Path(settings.token_file).read_text("ascii").strip()
    if not token.isprintable() or not token:
        raise problems.CredentialsUnreadable(
            f"{settings.token_file} holds no token"
        )
    configuration.api_key["authorization"] = f"Bearer {token}"
    return [settings.token_file]


def _fingerprint(path: str) -> tuple[int, int, int] | None:
    try:
        found = pathlib.Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
