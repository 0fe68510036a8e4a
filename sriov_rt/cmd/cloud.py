# SPDX-License-Identifier: Apache-2.0

"""Flavors and compute hosts from Nova's API, traits from Placement's."""

import dataclasses
import datetime
import os
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.cmd.command import Caller

#: Microversion of Placement's API that lists providers with a trait.
_PLACEMENT = "1.18"

#: Placement's status code for a trait that does not exist.
_UNKNOWN_TRAIT = 400


class CloudUnreachable(exceptions.SriovRtError):
    """Nova's API can't be reached, or refuses.

    :param problem: what openstacksdk said.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"nova-api cannot be used: {problem.rstrip('.')}; check that "
            "'openstack flavor list' works here (OS_CLOUD, or the OS_* "
            "variables)"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeService:
    """A host's nova-compute, as Nova's services API returns it.

    :param state: ``up`` or ``down``.
    :param updated_at: when it was last seen, UTC, ISO 8601; None for never.
    """

    state: str
    updated_at: str | None

    def unseen_s(self, now: float) -> float | None:
        """Return the seconds since it was last seen; None if unknown.

        :param now: Unix time, seconds.
        """
        try:
            seen = datetime.datetime.fromisoformat(self.updated_at or "")
        except ValueError:
            return None
        if seen.tzinfo is None:
            seen = seen.replace(tzinfo=datetime.UTC)
        return max(0.0, now - seen.timestamp())


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor, with the properties that are judged.

    :param memory_mib: its memory, MiB.
    """

    extra_specs: Mapping[str, str]
    vcpus: int
    memory_mib: int


def has_credentials() -> bool:
    """Return whether the environment names a cloud for clients."""
    return any(os.environ.get(name) for name in ("OS_CLOUD", "OS_AUTH_URL"))


def connection(caller: Caller) -> Any:
    """Return openstackclient's connection to the cloud; None without it."""
    clients = caller.clients
    return None if clients is None else clients.sdk_connection


def flavor(name: str, known: Any = None) -> Flavor:
    """Return a flavor.

    :param known: a connection to the cloud; one is made without it.
    :raises CloudUnreachable: if the API can't be reached.
    :raises SriovRtError: if there is no such flavor.
    """
    found = _request(
        lambda cloud: cloud.compute.find_flavor(
            name, ignore_missing=True, get_extra_specs=True
        ),
        known,
    )
    if found is None:
        raise exceptions.SriovRtError(
            f"no flavor {name!r}; 'openstack flavor list --all' names those "
            "that there are"
        )
    return Flavor(dict(found.extra_specs or {}), found.vcpus, found.ram)


def hosts(
    warn: Callable[[str], None], known: Any = None
) -> Mapping[str, ComputeService] | None:
    """Return the compute hosts by Nova's names, with their services.

    :param warn: prints why they are not known; the result is None then.
    :param known: a connection to the cloud; one is made without it.
    :raises CloudUnreachable: if the API can't be reached.
    """
    from openstack import exceptions as sdk

    try:
        found = _request(
            lambda cloud: {
                each.host: ComputeService(each.state, each.updated_at)
                for each in cloud.compute.services(binary="nova-compute")
            },
            known,
        )
    except CloudUnreachable as error:
        if not isinstance(error.__cause__, sdk.ForbiddenException):
            raise
        warn(
            "only administrators may list the compute hosts: hosts without "
            "an agent will not be shown"
        )
        return None
    return dict(sorted(found.items()))


def traits(
    names: Iterable[str], known: Any = None
) -> Mapping[str, frozenset[str]]:
    """Return which traits the provider of each compute host has in Placement.

    :param known: a connection to the cloud; one is made without it.
    :returns: the traits by host, as Nova names it.
    :raises CloudUnreachable: if an API can't be reached, or refuses.
    """
    requested = list(names)
    found: Mapping[str, frozenset[str]] = _request(
        lambda cloud: _traits(cloud, requested), known
    )
    return found


def _traits(
    connection: Any, names: Iterable[str]
) -> Mapping[str, frozenset[str]]:
    from openstack import exceptions as sdk

    # Nova names a host's provider after its hypervisor.
    hosts = {
        each.name: each.service_details["host"]
        for each in connection.compute.hypervisors(details=True)
    }
    found: dict[str, set[str]] = {host: set() for host in hosts.values()}
    for name in names:
        answer = connection.placement.get(
            "/resource_providers",
            params={"required": name},
            microversion=_PLACEMENT,
        )
        if answer.status_code == _UNKNOWN_TRAIT:
            continue  # no agent has published it
        sdk.raise_from_response(answer)
        for provider in answer.json()["resource_providers"]:
            if provider["name"] in hosts:
                found[hosts[provider["name"]]].add(name)
    return {host: frozenset(has) for host, has in found.items()}


def _request(question: Callable[[Any], Any], connection: Any) -> Any:
    try:
        import openstack
        from keystoneauth1 import exceptions as keystone
        from openstack import exceptions as sdk
    except ImportError as error:
        raise exceptions.SriovRtError(
            "--flavor needs openstacksdk; install sriov-rt[client], or give "
            "--extra-spec KEY=VALUE for each extra spec of the flavor"
        ) from error
    known = (sdk.SDKException, keystone.ClientException)
    try:
        if connection is None:
            connection = openstack.connect(cloud=os.environ.get("OS_CLOUD"))
        return question(connection)
    except known as error:
        raise CloudUnreachable(str(error)) from error
