# SPDX-License-Identifier: Apache-2.0

"""The Request of a RequestSpec, with the networks of its ports.

nova-api puts the user's request into it: networks by UUID, ports without
their network. It looks the latter up for a copy of the list only
(``compute.api._check_requested_networks`` sends tuples), so Neutron has to be
queried again. A user who requests neither gets a network from nova-compute
after scheduling. Physical networks are there only as the set of all. Neither
is kept for a later move of the instance, which relies on its host's facts.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import nova.conf
from keystoneauth1 import exceptions as ks_exceptions
from neutronclient.common import exceptions as neutron_exceptions
from nova import context
from nova import exception
from nova.network import neutron
from stevedore import extension

from sriov_rt import request as requests
from sriov_rt.request import Attachment
from sriov_rt.scheduler import options
from sriov_rt.scheduler.verdicts import Verdicts

LOG = logging.getLogger(__name__)

#: Ports whose network is cached; a port never changes its network.
_PORTS = 1024


def load(namespace: str) -> list[Any]:
    """Return the classes of a stevedore namespace.

    :raises ImportError: for an entry point that can't be loaded. Without its
        filter, nova-scheduler would place realtime instances anywhere.
    """

    def fail(manager: Any, entry_point: Any, error: BaseException) -> None:
        raise error

    manager = extension.ExtensionManager(
        namespace, on_load_failure_callback=fail
    )
    return [each.plugin for each in manager]


def extra_specs(spec: Any) -> Mapping[str, str]:
    """Return the extra specs of a RequestSpec's flavor."""
    flavor = spec.flavor
    found = flavor.extra_specs if "extra_specs" in flavor else None
    return found or {}


def request(spec: Any, verdicts: Verdicts) -> requests.Request:
    """Return the flavor's request, with the networks of the instance.

    :param verdicts: knows the accelerated ports of an instance that moves.
    :raises RequestError: for invalid extra specs.
    """
    found = requests.parse(extra_specs(spec))
    if not found.onload:
        return found
    conf = nova.conf.CONF
    options.register(conf)
    attached = attachments(spec) or verdicts.endpoints_of(spec.instance_uuid)
    if not options.keeps_apart(conf):
        attached = tuple(
            Attachment(None, each.physical_network) for each in attached
        )
    return dataclasses.replace(found, attachments=attached)


def attachments(spec: Any) -> tuple[Attachment, ...]:
    """Return the networks on which Onload may accelerate an instance.

    Where a network's physical network is not known, there is an attachment
    for each possible pair.
    """
    metadata = spec.network_metadata if "network_metadata" in spec else None
    physical: list[str | None] = [None]
    if metadata is not None and "physnets" in metadata:
        physical = sorted(metadata.physnets)
    # Onload does not accelerate our ports on a tunnel.
    networks = tuple(dict.fromkeys(_networks(spec))) if physical else ()
    if not networks:
        return tuple(Attachment(None, each) for each in physical if each)
    return tuple(Attachment(n, each) for n in networks for each in physical)


def _networks(spec: Any) -> Iterator[str]:
    if "requested_networks" not in spec or spec.requested_networks is None:
        return
    requested = spec.requested_networks
    if requested.no_allocate:
        return
    for each in requested:
        if each.network_id is not None and not each.auto_allocate:
            yield each.network_id
        elif each.port_id is not None:
            yield from _of_port(each.port_id)


def _of_port(port: str) -> Iterator[str]:
    try:
        yield network_of(port)
    except (
        exception.NovaException,
        ks_exceptions.ClientException,
        neutron_exceptions.NeutronException,
    ) as error:
        LOG.debug("The network of port=%s is unknown: %s", port, error)
        _warn(type(error).__name__)


@functools.cache
def _warn(problem: str) -> None:
    """Log each kind of problem once, rather than once per request."""
    LOG.warning(
        "Neutron does not return the network of a port (%s): accelerated "
        "ports are kept apart by the compute hosts alone; set [neutron] in "
        "the nova.conf of nova-scheduler",
        problem,
    )


@functools.lru_cache(_PORTS)
def network_of(port: str) -> str:
    """Return the network of a port, which never changes.

    :raises NovaException: or another error of Neutron's, if it is unknown.
    """
    found = neutron.API().show_port(context.get_admin_context(), port)
    network: str = found["port"]["network_id"]
    return network
