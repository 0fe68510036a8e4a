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

"""The Reason for a fact that could not be read."""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

_CODE = "fact_unknown"


def unknown(fact: str, value: Unknown) -> Reason:
    """Return the Reason for a fact that could not be read."""
    return reason(_CODE, fact=fact, why=value.reason)


def unread(fact: str, value: Unknown) -> Iterator[Reason]:
    """Yield the Reason, unless the agent is older than the fact.

    Such an agent's host was judged without it.
    """
    if value != NOT_REPORTED:
        yield unknown(fact, value)


def is_unknown(why: Reason) -> bool:
    """Return whether a Reason is that a fact could not be read."""
    return why.code == _CODE
