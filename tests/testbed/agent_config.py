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

"""Configuration of sriov-rt-agent, and of who plugs ports on a host."""

import pathlib
from collections.abc import Sequence

from tests.testbed import ini
from tests.testbed import settings


def agent(
    host: str, nova_configuration: pathlib.Path
) -> dict[str, ini.Section]:
    """Return the configuration of a host's agent.

    :param host: the name of the host; its hypervisor has the same.
    :param nova_configuration: the file that the host's nova-compute reads.
    """
    return {
        "DEFAULT": {"host": host, "transport_url": settings.TRANSPORT_URL},
        "agent": {
            "node": host,
            "nova_config_files": nova_configuration,
            # Half of the default: tests wait for changes to be seen.
            "observe_interval": 5,
            "heartbeat_interval": 5,
        },
        "placement": settings.credentials("placement"),
    }


def ports(parents: Sequence[str], journal: str) -> dict[str, ini.Section]:
    """Return the configuration of all that plug ports on a host.

    :param parents: as in "physnet2:enp2s0v2".
    :param journal: the directory that they have in common.
    """
    return {"vif": {"parents": ",".join(parents), "journal": journal}}
