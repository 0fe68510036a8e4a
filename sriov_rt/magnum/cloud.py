# SPDX-License-Identifier: Apache-2.0

"""Flavors, networks and hosts of the cloud, read by REST.

Supported releases of Magnum have different Nova clients, and no Placement
client.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1.adapter import Adapter

from sriov_rt.magnum import errors
from sriov_rt.magnum.nodegroup import Flavor
from sriov_rt.magnum.nodegroup import Networks

#: The first microversion that lists flavors with their extra specs.
NOVA_MICROVERSION = "2.61"

#: Neutron has no microversions.
NO_MICROVERSION = None

#: The first microversion that finds providers by traits.
PLACEMENT_MICROVERSION = "1.18"

HTTP_BAD_REQUEST = 400

#: Nova lists 1000 flavors in a page.
MAX_PAGES = 100


def flavors(client: Adapter) -> Mapping[str, Flavor]:
    """Return the user's flavors by id and name; an id takes precedence.

    :param client: client of Nova, as the user.
    :raises CloudUnusable: if Nova gives no usable answer.
    """
    by_id: dict[str, Flavor] = {}
    by_name: dict[str, Flavor] = {}
    # With it an administrator sees private flavors too; for users it changes
    # nothing.
    params = {"is_public": "None"}
    for _ in range(MAX_PAGES):
        found = _get(
            client, "Nova", "/flavors/detail", NOVA_MICROVERSION, params
        )
        page = found.get("flavors")
        if not isinstance(page, list):
            raise errors.CloudUnusable("Nova", "it listed no flavors")
        for each in page:
            marker, flavor = _flavor(each)
            by_id[marker] = by_name[flavor.name] = flavor
        if not page or not found.get("flavors_links"):
            return {**by_name, **by_id}
        params["marker"] = marker
    raise errors.CloudUnusable("Nova", "its list of flavors has no end")


def networks(client: Adapter) -> Networks:
    """Return UUIDs of the user's networks; a UUID precedes equal names.

    :param client: client of Neutron, as the user.
    :raises CloudUnusable: if Neutron gives no usable answer.
    """
    by_id: dict[str, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    params = {"fields": ["id", "name"]}
    for _ in range(MAX_PAGES):
        answer = _get(
            client, "Neutron", "/v2.0/networks", NO_MICROVERSION, params
        )
        page = answer.get("networks")
        if not isinstance(page, list):
            raise errors.CloudUnusable("Neutron", "it listed no networks")
        for each in page:
            try:
                marker, name = str(each["id"]), str(each["name"])
            except (LookupError, TypeError) as error:
                raise errors.CloudUnusable(
                    "Neutron", "it listed something that is no network"
                ) from error
            by_name.setdefault(name, []).append(marker)
            by_id[marker] = [marker]
        if not page or not answer.get("networks_links"):
            return {**by_name, **by_id}
        params["marker"] = [marker]
    raise errors.CloudUnusable("Neutron", "its list of networks has no end")


def has_host(client: Adapter, traits: Iterable[str]) -> bool:
    """Return whether a resource provider has all of these traits.

    :param client: client of Placement, as an administrator.
    :raises CloudUnusable: if Placement gives no usable answer.
    """
    try:
        found = _get(
            client,
            "Placement",
            "/resource_providers",
            PLACEMENT_MICROVERSION,
            {"required": ",".join(sorted(traits))},
        )
    except errors.CloudUnusable as error:
        if error.status == HTTP_BAD_REQUEST:
            # Placement does not know a trait that no host ever had.
            return False
        raise
    providers = found.get("resource_providers")
    if not isinstance(providers, list):
        raise errors.CloudUnusable(
            "Placement", "it listed no resource providers"
        )
    return bool(providers)


def _get(
    client: Adapter,
    service: str,
    path: str,
    microversion: str | None,
    params: Mapping[str, Any],
) -> Mapping[str, Any]:
    try:
        answer = client.get(
            path, params=params, microversion=microversion, raise_exc=False
        )
        found = answer.json() if answer.status_code == 200 else None
    except (ks_exceptions.ClientException, ValueError) as error:
        raise errors.CloudUnusable(
            service, str(error) or type(error).__name__
        ) from error
    if answer.status_code != 200:
        raise errors.CloudUnusable(
            service,
            f"HTTP {answer.status_code} for {path}",
            answer.status_code,
        )
    if not isinstance(found, dict):
        raise errors.CloudUnusable(service, f"no JSON object for {path}")
    return found


def _flavor(found: Any) -> tuple[str, Flavor]:
    try:
        extra_specs = found.get("extra_specs")
        return str(found["id"]), Flavor(
            name=str(found["name"]),
            vcpus=int(found["vcpus"]),
            ram_mib=int(found["ram"]),
            extra_specs=(
                None
                if extra_specs is None
                else {str(k): str(v) for k, v in extra_specs.items()}
            ),
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise errors.CloudUnusable(
            "Nova", "it listed something that is no flavor"
        ) from error
