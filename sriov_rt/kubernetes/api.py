# SPDX-License-Identifier: Apache-2.0

"""Client of the Kubernetes API: lists and watches one Node."""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
from collections.abc import Iterator
from typing import Any

import urllib3
from kubernetes import client
from kubernetes import config
from kubernetes import watch

from sriov_rt.kubernetes import errors
from sriov_rt.kubernetes import node

#: The longest message that is passed on, in characters.
MAX_MESSAGE = 300

#: Seconds that a connection and an answer may take, in requests of a command.
CONNECT_S = 5.0
READ_S = 30.0

HTTP_NOT_FOUND = 404

#: urllib3 names the connection that failed by its place in memory.
_OBJECT = re.compile(r"<[^<>]* at 0x[0-9a-f]+>:? ?")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """API server, credentials and timeouts from the options.

    :param node_name: name of the Node.
    :param watch_timeout_s: longest time of a watch, whole seconds.
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


def connect(kubeconfig: str | None, context: str | None) -> Any:
    """Return a client of the cluster that a kubeconfig file names.

    :param kubeconfig: None for the service account of a pod.
    :raises ApiProblem: if there are no credentials.
    """
    settings = Settings(
        "", kubeconfig, context, None, None, None, CONNECT_S, READ_S, 0
    )
    return client.ApiClient(_configuration(settings))


def get(connection: Any, path: str, **query: Any) -> Any:
    """Return the decoded answer of an API server.

    :param connection: client from :func:`connect`.
    :param path: such as ``/api/v1/nodes``.
    :returns: None if there is no such object (404).
    :raises ApiProblem: if it does not answer, or not with JSON.
    """
    try:
        with _problems():
            found = connection.call_api(
                path,
                "GET",
                query_params=list(query.items()),
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=(CONNECT_S, READ_S),
            )
            return json.loads(found.data)
    except errors.Refused as error:
        if error.status == HTTP_NOT_FOUND:
            return None
        raise


class NodeApi:
    """Client that lists and watches one Node, for use by one thread.

    Each list reads the credentials again and opens a connection, which the
    next watch uses too. So replaced files are noticed without further action.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._core: Any = None
        self._watch: Any = None

    def list(self) -> node.Listing:
        """Return the current Node.

        :raises ApiProblem: if the API server does not return it.
        """
        with _problems():
            configuration = _configuration(self._settings)
            self._core = client.CoreV1Api(client.ApiClient(configuration))
            # Plain JSON rather than the package's models, which parse the
            # whole Node and refuse it if an expected field is missing.
            found = self._core.list_node(
                **self._request(self._settings.read_timeout_s),
                _preload_content=False,
            )
            return node.listing(json.loads(found.data))

    def watch(self, version: str) -> Iterator[node.Event]:
        """Yield events of the Node, until the API server ends the watch.

        :param version: resourceVersion to begin after, from :meth:`list`.
        :raises ApiProblem: if the API server refuses, breaks off or hangs.
        """
        longest_s = self._settings.watch_timeout_s
        # A random time spreads watches that began together after an outage.
        lasts_s = random.randint(-(-3 * longest_s // 4), longest_s)  # noqa: S311
        # The type "object" yields plain JSON.
        self._watch = watch.Watch(return_type="object")
        with _problems():
            for each in self._watch.stream(
                self._core.list_node,
                **self._request(lasts_s + self._settings.read_timeout_s),
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=lasts_s,
            ):
                yield node.event(each)

    def interrupt(self) -> None:
        """End a watch, from any thread.

        A client before 36.0 ends it only at its next event or timeout.
        """
        if self._watch is not None:
            self._watch.stop()

    def _request(self, seconds: float) -> dict[str, Any]:
        return {
            "field_selector": f"metadata.name={self._settings.node_name}",
            "_request_timeout": (self._settings.connect_timeout_s, seconds),
        }


@contextlib.contextmanager
def _problems() -> Iterator[None]:
    """Translate errors of the client to those that name a remedy."""
    try:
        yield
    except client.ApiException as error:
        raise _refusal(error) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise errors.Unreachable(_why(error)) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # The client does not validate the answers of an API server.
        raise errors.Garbled(_why(error)) from error
    except RecursionError:
        raise errors.Garbled("JSON nested too deeply") from None


def _refusal(error: Any) -> errors.ApiProblem:
    status = error.status
    message = _message(error.body) or error.reason or "no reason"
    if not status:
        # The client reports a TLS error in this way.
        return errors.Unreachable(str(error.reason)[:MAX_MESSAGE])
    if status == 401:
        return errors.CredentialsRefused()
    if status == 403:
        return errors.Forbidden(message)
    if status == 410:
        return errors.Expired()
    after = (error.headers or {}).get("Retry-After", "")
    seconds = float(after) if after.isascii() and after.isdigit() else 0.0
    return errors.Refused(status, message, min(seconds, 3600.0))


def _message(body: str | bytes | None) -> str:
    try:
        plain = json.loads(body or "")
    except (ValueError, RecursionError):
        return ""
    found = plain.get("message") if type(plain) is dict else None
    text = found if type(found) is str else ""
    return "".join(each for each in text if each.isprintable())[:MAX_MESSAGE]


def _why(error: Exception) -> str:
    text = _OBJECT.sub("", str(error)).strip()
    return f"{type(error).__name__}: {text}"[:MAX_MESSAGE]


def _configuration(settings: Settings) -> Any:
    """Return the client's configuration: kubeconfig, token or service account.

    :raises CredentialsUnreadable: if there are no credentials.
    """
    found = client.Configuration()
    # The package reads this variable but loses its value (35.0).
    found.no_proxy = os.environ.get("NO_PROXY", os.environ.get("no_proxy"))
    found.retries = False
    try:
        if settings.kubeconfig:
            config.load_kube_config(
                settings.kubeconfig,
                context=settings.context,
                client_configuration=found,
                persist_config=False,
            )
        elif settings.api_server:
            found.host = settings.api_server
            found.ssl_ca_cert = settings.ca_file
            if settings.token_file:
                token = _token(settings.token_file)
                found.api_key["authorization"] = f"Bearer {token}"
        else:
            config.load_incluster_config(found)
    except errors.CredentialsUnreadable:
        raise
    except Exception as error:
        # For a malformed file the package and its plugins raise any kind of
        # error: KeyError, yaml.YAMLError, binascii.Error.
        raise errors.CredentialsUnreadable(_why(error)) from error
    return found


def _token(path: str) -> str:
    token = pathlib.Path(path).read_text("ascii").strip()
    if not token.isprintable() or not token:
        raise errors.CredentialsUnreadable(f"{path} holds no token")
    return token
