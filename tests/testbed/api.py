# SPDX-License-Identifier: Apache-2.0

"""The cloud's HTTP interfaces, through openstacksdk.

openstacksdk is in the cloud's Python environment: programs inside the cloud
have it, but not the code that makes that environment.
"""

import openstack
from keystoneauth1.exceptions import ClientException
from keystoneauth1.exceptions import ConnectFailure
from openstack.connection import Connection
from openstack.exceptions import SDKException

from tests.testbed import network
from tests.testbed import settings

#: What a request may raise.
ERRORS = (ClientException, SDKException)
#: What it raises when nobody answers, or not in time.
UNANSWERED = ConnectFailure

_SECONDS = 60.0


def connect() -> Connection:
    """Return a connection to the cloud as its administrator."""
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth={
            "auth_url": network.url("keystone") + "/v3",
            "username": "admin",
            "password": settings.PASSWORD,
            "project_name": "admin",
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
        region_name=settings.REGION,
        compute_default_microversion=settings.COMPUTE_API,
        placement_default_microversion=settings.PLACEMENT_API,
        api_timeout=_SECONDS,
    )
