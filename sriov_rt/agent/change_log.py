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

"""The line that the agent logs when its host has changed."""

import logging
from collections.abc import Mapping

from sriov_rt.agent import traits
from sriov_rt.facts import HostFacts
from sriov_rt.reason import Reason

LOG = logging.getLogger(__name__)


def log(
    facts: HostFacts,
    digest: str,
    found: Mapping[str, tuple[Reason, ...]],
    held: frozenset[str],
) -> None:
    """Log what the host is now, in one line."""
    reasons = found[traits.REALTIME]
    LOG.info(
        "facts changed: host=%s node=%s digest=%s realtime=%s traits=%s%s",
        facts.host,
        facts.node,
        digest[:12],
        "no" if reasons else "yes",
        ",".join(sorted(held)) or "none",
        "".join(f" [{each.code}] {each.message}" for each in reasons),
    )
