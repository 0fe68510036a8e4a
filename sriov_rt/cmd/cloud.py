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

"""Nova's API: a flavor's extra specs, and the compute hosts."""

import os
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions


class ClientMissing(exceptions.SriovRtError):
    """The client of OpenStack's APIs is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "--flavor needs openstacksdk; install sriov-rt[client], or give "
            "--extra-spec KEY=VALUE for each extra spec of the flavor"
        )


class CloudUnreachable(exceptions.SriovRtError):
    """Nova's API can't be reached, or refuses.

    :param problem: what openstacksdk said.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"nova-api cannot be used: {problem}; see that 'openstack flavor "
            "list' works here (OS_CLOUD, or the OS_* variables)"
        )


class FlavorMissing(exceptions.SriovRtError):
    """There is no such flavor.

    :param name: as it was given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"no flavor {name!r}; 'openstack flavor list --all' names those "
            "that there are"
        )


def connection(app: Any) -> Any:
    """Return openstackclient's connection to the cloud, None without it.

    :param app: what runs the command.
    """
    manager = getattr(app, "client_manager", None)
    return None if manager is None else manager.sdk_connection


def extra_specs(name: str, known: Any = None) -> Mapping[str, str]:
    """Return the extra specs of a flavor.

    :param name: its name or id.
    :param known: a connection to the cloud; one is made without it.
    :raises CloudUnreachable: if the API can't be asked.
    :raises FlavorMissing: if there is none.
    """
    flavor = _request(
        lambda compute: compute.find_flavor(
            name, ignore_missing=True, get_extra_specs=True
        ),
        known,
    )
    if flavor is None:
        raise FlavorMissing(name)
    return dict(flavor.extra_specs or {})


def hosts(warn: Callable[[str], None], known: Any = None) -> list[str] | None:
    """Return the compute hosts, as Nova names them.

    :param warn: prints why they are not known, in which case there is None.
    :param known: a connection to the cloud; one is made without it.
    :raises CloudUnreachable: if the API can't be asked.
    """
    from openstack import exceptions as sdk

    try:
        found = _request(
            lambda compute: [
                each.service_details["host"]
                for each in compute.hypervisors(details=True)
            ],
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
    return sorted(found)


def _request(question: Callable[[Any], Any], connection: Any) -> Any:
    try:
        import openstack
        from keystoneauth1 import exceptions as keystone
        from openstack import exceptions as sdk
    except ImportError as error:
        raise ClientMissing from error
    known = (sdk.SDKException, keystone.ClientException)
    try:
        if connection is None:
            connection = openstack.connect(cloud=os.environ.get("OS_CLOUD"))
        return question(connection.compute)
    except known as error:
        raise CloudUnreachable(str(error)) from error
