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


"""Compute hosts as the control plane knows them: they come and they go."""

from collections.abc import Callable
from collections.abc import Collection

from tests.testbed import errors
from tests.testbed.rest import Rest
from tests.testbed.waiting import wait_for

#: An emulated host needs 60 s of an idle machine to import Nova, and eight
#: minutes while its agents start beside the tests of another such host.
_HOST_SECONDS = 1200.0


def hypervisors(api: Rest) -> set[str]:
    """Return the compute hosts that Nova knows in a cell and sees up.

    :param api: the cloud.
    """
    listed = api.get("nova-api", "/os-hypervisors/detail")["hypervisors"]
    return {
        each["hypervisor_hostname"] for each in listed if each["state"] == "up"
    }


def wait_compute(api: Rest, host: str, well: Callable[[], bool]) -> None:
    """Wait until the scheduler can choose a host.

    :param api: the cloud.
    :param host: its name.
    :param well: whether its services run.
    :raises errors.TestbedError: when one has ended, or it takes too long.
    """

    def known() -> bool:
        if not well():
            raise errors.TestbedError(
                f"a service of {host} has ended; look into its log"
            )
        return host in hypervisors(api)

    wait_for(
        f"nova-compute on {host} is known to the scheduler",
        known,
        timeout=_HOST_SECONDS,
        interval=1,
    )


def wait_agents(api: Rest, host: str, binaries: Collection[str]) -> None:
    """Wait until Neutron can bind ports to a host.

    :param api: the cloud.
    :param host: its name.
    :param binaries: the agents that it needs.
    :raises errors.TimedOut: when they stay unknown.
    """

    def alive() -> bool:
        listed = api.get("neutron", f"/agents?host={host}")["agents"]
        return {each["binary"] for each in listed if each["alive"]} >= set(
            binaries
        )

    wait_for(
        f"the agents of {host} are known to Neutron",
        alive,
        timeout=_HOST_SECONDS,
        interval=1,
    )


def forget(api: Rest, host: str) -> None:
    """Let Nova and Neutron forget a host that was stopped.

    :param api: the cloud.
    :param host: its name.
    :raises errors.HttpError: when there are instances on it.
    """
    for each in api.get("nova-api", f"/os-services?host={host}")["services"]:
        api.delete("nova-api", f"/os-services/{each['id']}")
    for each in api.get("neutron", f"/agents?host={host}")["agents"]:
        api.delete("neutron", f"/agents/{each['id']}")
