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


"""What ``sriov-rt host check --mode onload`` tells of the NICs."""

from collections.abc import Iterator
from typing import Any

from sriov_rt import codec
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.host.table import printable
from sriov_rt.onload import settings
from sriov_rt.onload.errors import OnloadError


def plain(facts: HostFacts, resource: str) -> dict[str, Any]:
    """Return it as a JSON object.

    :param resource: the extended resource of Onload's device plugin.
    """
    return {
        "nics": codec.to_plain(facts.onload.nics),
        "pools": codec.to_plain(facts.vifs.pools),
        "allocatable": {resource: allocatable(facts, resource)},
    }


def lines(facts: HostFacts, resource: str) -> Iterator[str]:
    """Yield it as lines of text."""
    nics, pools = facts.onload.nics, facts.vifs.pools
    if isinstance(nics, Unknown):
        yield f"NICs that Onload can use: unknown ({printable(nics.reason)})"
    else:
        told = (f"{printable(nic)} ({how})" for nic, how in nics.items())
        yield f"NICs that Onload can use: {', '.join(told) or 'none'}"
        found = {} if isinstance(pools, Unknown) else pools
        for physical, pool in found.items():
            able = ", ".join(printable(nic) for nic in pool if nic in nics)
            yield f"  on physical network {printable(physical)}: " + (
                able or "none"
            )
    count = allocatable(facts, resource)
    if count is not None:
        yield f"Kubernetes can allocate {resource}: {printable(count)}"


def allocatable(facts: HostFacts, resource: str) -> str | None:
    """Return how many of a resource the host's Node can allocate.

    A Node's extended resources are labels of theirs
    (:func:`sriov_rt.kubernetes.node.labels`), and so among the facts.

    :returns: None where the host is no Node, or has no such device plugin.
    """
    values = facts.labels.values
    return None if isinstance(values, Unknown) else values.get(resource)


def resource(root: Root) -> str:
    """Return ``[onload] resource`` of the host, its default without one."""
    if root.exists(CONFIG) is not True:
        return settings.Settings().resource
    try:
        return settings.load([str(root.path / CONFIG)]).resource
    except OnloadError:
        # The facts say what is wrong with the configuration.
        return settings.Settings().resource
