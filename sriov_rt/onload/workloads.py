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

"""What became of the instances of a host that asked for Onload."""

from collections.abc import Iterable

from sriov_rt.codec import Unknown
from sriov_rt.facts import Workload
from sriov_rt.host.root import Root
from sriov_rt.onload import effect
from sriov_rt.onload import instances
from sriov_rt.onload.effect import Effect
from sriov_rt.onload.effect import State
from sriov_rt.onload.instances import Container
from sriov_rt.onload.processes import Processes
from sriov_rt.onload.processes import driver

#: An instance is as far as the furthest of its processes.
_ORDER = tuple(State)

_PLAIN = (
    "a port shares its NIC with an accelerated instance of its network, and "
    "it runs over the kernel ([onload] second_endpoint)"
)
_NOBODY = "no process of it has Onload's library or preload"
_HIDDEN = "its processes can't be looked at"


def observe(root: Root) -> tuple[Workload, ...] | Unknown:
    """Return the state of each instance that asked for Onload, sorted."""
    found = instances.observe(root)
    if isinstance(found, Unknown):
        return found
    asking = tuple(each for each in found if each.asks)
    if not asking:
        return ()
    whose = instances.processes(root, asking)
    every = Processes(root)
    effects = tuple(effect.all_of(every.of(whose), driver(root)))
    return tuple(
        judge(
            each,
            (e for e in effects if whose[e.process.pid] == each.instance),
            hidden=every.unreadable > 0,
        )
        for each in asking
    )


def judge(
    container: Container, effects: Iterable[Effect], *, hidden: bool = False
) -> Workload:
    """Return what became of an instance. Pure.

    :param container: one that asks for Onload.
    :param effects: of its processes.
    :param hidden: whether some could not be looked at.
    """
    best = max(
        effects, key=lambda each: _ORDER.index(each.state), default=None
    )
    if best is None:
        why = _HIDDEN if hidden else _NOBODY
        if container.is_plain:
            why = _PLAIN
        return Workload(container.instance, State.ASKED.value, why)
    why = "" if best.state is State.ACCELERATED else best.why
    told = f"{why}{best.note}".strip()
    return Workload(container.instance, best.state.value, told)
