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

"""What an operator chooses of how ports are made."""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection


def _no_nics() -> Collection[str]:
    return ()


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """What an operator chooses.

    :param allow_trust: whether VFs of the pools may be set trusted.
    :param carrier_wait_s: how long a new port is given to get a carrier
        before it is announced, in seconds.
    :param unaccelerated: whether a port that is to be accelerated, and finds
        no NIC without another of its network, is plugged as a plain one.
    :param onload_nics: tells the interfaces of the NICs that Onload can use;
        asked for ports that are to be accelerated.
    """

    allow_trust: bool = True
    carrier_wait_s: float = 2.0
    unaccelerated: bool = False
    onload_nics: Callable[[], Collection[str]] = _no_nics
