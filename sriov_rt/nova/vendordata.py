# SPDX-License-Identifier: Apache-2.0

"""Vendordata service: user data that lets a VM's services run over Onload.

Nothing can be preloaded into a VM from outside. This writes a file that
systemd units of the guest refer to (``EnvironmentFile=``); the image has to
bring such units and Onload.

The WSGI application answers Nova's dynamic vendordata requests. Nova posts
what it knows of an instance, except its flavor. Only the instance's id is
used: name, metadata and user data are the tenant's. The flavor's extra specs
are fetched from Nova.
"""

import json
import logging
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.host.root import Root
from sriov_rt.onload import plan
from sriov_rt.onload.settings import Settings

LOG = logging.getLogger(__name__)

#: The longest request, in bytes: user data are 64 KiB at the most, metadata
#: 128 pairs of 255 characters each.
MAX_REQUEST = 1024 * 1024

#: Roles that may send requests: Nova's service user has one of these.
ROLES = frozenset({"service", "admin"})

StartResponse = Callable[[str, list[tuple[str, str]]], Any]

#: Returns the extra specs of an instance's flavor, None for no such instance.
Flavors = Callable[[str], Mapping[str, str] | None]

#: File with Onload's variables in a guest.
PATH = "/etc/sriov-rt/onload.env"


def cloud_config(
    environment: Mapping[str, str], profile: tuple[str, str] | None
) -> str:
    """Return user data for cloud-init, as JSON, which is valid YAML.

    :param environment: LD_PRELOAD and the profile's variables.
    :param profile: its name and sha256.
    """
    head = "# Onload, by sriov-rt"
    if profile is not None:
        head += f": profile {profile[0]}, sha256 {profile[1]}"
    lines = [head, *(f"{name}={text}" for name, text in environment.items())]
    config: dict[str, Any] = {
        "write_files": [
            {
                "path": PATH,
                "permissions": "0644",
                "content": "\n".join(lines) + "\n",
            }
        ]
    }
    return "#cloud-config\n" + json.dumps(config, indent=2) + "\n"


class _Refused(Exception):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Application:
    """WSGI application that gives cloud-init the preload and profile.

    It keeps no state. It must run behind Keystone's middleware: requests
    without the headers that this sets are refused.

    :param root: the file system that the profiles are on.
    """

    def __init__(
        self, settings: Settings, root: Root, flavors: Flavors
    ) -> None:
        self._settings = settings
        self._root = root
        self._flavors = flavors

    def __call__(
        self, environ: Mapping[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer one request (PEP 3333)."""
        try:
            _authorise(environ)
            answer = self._answer(_instance(environ))
            status = "200 OK"
        except _Refused as refused:
            answer, status = {"error": str(refused)}, refused.status
        except exceptions.SriovRtError as error:
            LOG.error("vendordata: %s", error)
            answer = {"error": str(error)}
            status = "500 Internal Server Error"
        body = json.dumps(answer).encode()
        start_response(
            status,
            [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
            ],
        )
        return [body]

    def _answer(self, instance: str) -> Any:
        """Return the vendordata of an instance, empty without any."""
        extra_specs = self._flavors(instance)
        if extra_specs is None:
            raise _Refused("404 Not Found", f"no instance {instance}")
        request = requests.parse(extra_specs)
        if not request.onload:
            return {}
        profile = self._settings.profile(request.onload_profile, self._root)
        environment = plan.environment(self._settings.guest_library, profile)
        LOG.info(
            "instance=%s profile=%s: sent to cloud-init",
            instance,
            None if profile is None else profile.name,
        )
        return cloud_config(
            environment,
            None if profile is None else (profile.name, profile.sha256),
        )


def _authorise(environ: Mapping[str, Any]) -> None:
    if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
        raise _Refused("401 Unauthorized", "Keystone's token is missing")
    roles = {
        each.strip().lower()
        for each in str(environ.get("HTTP_X_ROLES", "")).split(",")
    }
    if not roles & ROLES:
        needed = " or ".join(sorted(ROLES))
        raise _Refused("403 Forbidden", f"the role {needed} is needed")


def _instance(environ: Mapping[str, Any]) -> str:
    """Return the id of the instance that a request is about."""
    if environ.get("REQUEST_METHOD") != "POST":
        raise _Refused("405 Method Not Allowed", "POST expected")
    length = str(environ.get("CONTENT_LENGTH") or "")
    if not (length.isascii() and length.isdigit() and len(length) < 9):
        raise _Refused("411 Length Required", "Content-Length expected")
    if int(length) > MAX_REQUEST:
        raise _Refused("413 Content Too Large", f"more than {MAX_REQUEST} B")
    try:
        given = json.loads(environ["wsgi.input"].read(int(length)))
    except (ValueError, RecursionError):
        raise _Refused("400 Bad Request", "JSON expected") from None
    instance = given.get("instance-id") if type(given) is dict else None
    try:
        # In canonical form: it becomes part of a path in Nova's API.
        return str(uuid.UUID(instance))
    except (TypeError, ValueError, AttributeError):
        raise _Refused(
            "400 Bad Request", "instance-id: a UUID expected"
        ) from None
