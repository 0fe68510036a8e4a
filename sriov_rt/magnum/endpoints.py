# SPDX-License-Identifier: Apache-2.0

"""Endpoints of the cloud, as configured in magnum.conf."""

from typing import Any

from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1.adapter import Adapter
from magnum.common import clients
from magnum_capi_helm import conf

CONF = conf.CONF


def adapter(session: Any, service: str) -> Adapter:
    """Return a client of a service, in the region of Nova."""
    return Adapter(
        session=session,
        service_type=service,
        interface=CONF.nova_client.endpoint_type,
        region_name=CONF.nova_client.region_name,
    )


def has_cinder(context: Any) -> bool:
    """Return whether the cloud has Cinder."""
    try:
        return bool(
            clients.OpenStackClients(context).url_for(
                service_type="block-storage",
                interface=CONF.cinder_client.endpoint_type,
                region_name=CONF.cinder_client.region_name,
            )
        )
    except ks_exceptions.EndpointNotFound:
        return False
