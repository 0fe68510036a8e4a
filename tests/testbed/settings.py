# SPDX-License-Identifier: Apache-2.0

"""Settings that the configuration files of several services share."""

from tests.testbed import ini
from tests.testbed import network

#: One password for everything: nobody else reaches this network.
PASSWORD = "testbed"
REGION = "RegionOne"
#: The microversions that the test bed requests.
COMPUTE_API = "2.96"
PLACEMENT_API = "1.39"

#: Networks for direct ports, one for each PF of rt-1, with VLANs.
PHYSICAL_NETWORKS = {"physnet1": (100, 199), "physnet2": (200, 299)}

#: The network on which rt-1 has VFs as parents for ports of sriov_rt.
POOL_NETWORK = "physnet2"
#: The wire between rt-1's PFs without any VLAN, with the PFs as parents. Its
#: two ports are on two PFs and always reach each other. igb never frees a VF's
#: MAC filter, so of macvlans on two VFs of a PF only the first pair reach each
#: other, and later ones receive nothing.
WIRE_NETWORK = "physnet3"

TRANSPORT_URL = (
    f"rabbit://guest:guest@{network.CONTROLLER_ADDRESS}"
    f":{network.PORTS['rabbitmq']}/"
)


def database(name: str) -> ini.Section:
    """Return the options of a [database] section.

    :param name: the database, as in "nova_api".
    """
    return {
        "connection": database_url(name),
        "max_pool_size": 5,
        "max_overflow": 10,
    }


def database_url(name: str) -> str:
    """Return the URL of a database for SQLAlchemy.

    :param name: the database, as in "nova_api".
    """
    return (
        f"mysql+pymysql://root@{network.CONTROLLER_ADDRESS}"
        f":{network.PORTS['mariadb']}/{name}?charset=utf8"
    )


def credentials(user: str) -> dict[str, ini.Value]:
    """Return the options by which a service authenticates to Keystone.

    :param user: the service's user, as in "nova".
    """
    keystone = network.url("keystone") + "/v3"
    return {
        "www_authenticate_uri": keystone,
        "auth_url": keystone,
        "auth_type": "password",
        "project_domain_id": "default",
        "user_domain_id": "default",
        "project_name": "service",
        "username": user,
        "password": PASSWORD,
        "region_name": REGION,
    }


def client_environment() -> dict[str, str]:
    """Return the OS_ variables of the cloud's administrator."""
    return {
        "OS_AUTH_URL": network.url("keystone") + "/v3",
        "OS_USERNAME": "admin",
        "OS_PASSWORD": PASSWORD,
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": REGION,
        "OS_IDENTITY_API_VERSION": "3",
        "OS_COMPUTE_API_VERSION": COMPUTE_API,
        "OS_PLACEMENT_API_VERSION": PLACEMENT_API,
    }
