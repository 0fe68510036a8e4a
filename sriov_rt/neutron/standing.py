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

"""What neutron-server says of a port that is plugged here."""

import enum
from collections.abc import Mapping
from typing import Any


class Standing(enum.Enum):
    """What a port is to be."""

    UP = enum.auto()
    #: Its administrative state is down.
    DOWN = enum.auto()
    #: Unknown, or bound to another host as yet.
    ELSEWHERE = enum.auto()


def standing(details: Mapping[str, Any]) -> Standing:
    """Return what a port is to be.

    :param details: as neutron-server gives them (_get_device_details in
        neutron/plugins/ml2/rpc.py): without ``port_id`` for a port that is
        unknown, unbound or not bound here.
    """
    if "port_id" not in details:
        return Standing.ELSEWHERE
    return Standing.UP if details.get("admin_state_up") else Standing.DOWN
