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

"""Hosts that fail a request, in words."""

import collections
import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt.reason import Reason

#: Hosts named in one line of the log.
HOSTS_A_LINE = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Hosts that fail a request for the same Reasons."""

    reasons: tuple[Reason, ...]
    hosts: tuple[str, ...]


def lines(refusals: Iterable[Refusal]) -> Iterator[str]:
    """Yield the refusals in words: each host once, with all its Reasons."""
    for refusal in refusals:
        why = "; ".join(f"{r.code}: {r.message}" for r in refusal.reasons)
        hosts = refusal.hosts
        for start in range(0, len(hosts), HOSTS_A_LINE):
            yield f"{', '.join(hosts[start : start + HOSTS_A_LINE])}: {why}"


def summary(refusals: Iterable[Refusal]) -> str:
    """Return how many hosts fail for which Reason, the most common first."""
    counts: collections.Counter[str] = collections.Counter()
    for refusal in refusals:
        for code in {reason.code for reason in refusal.reasons}:
            counts[code] += len(refusal.hosts)
    return ", ".join(f"{code} × {n}" for code, n in counts.most_common())
