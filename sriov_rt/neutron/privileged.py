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

"""What of the extension runs with privileges: looks at VFs, sets them.

In the daemon of :mod:`sriov_rt.vif.privsep`, root with CAP_NET_ADMIN: the
stock SR-IOV agent runs as neutron's user. Nothing here imports neutron, for
the daemon has no need of it.
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_privsep import comm
from oslo_privsep import daemon

from sriov_rt import codec
from sriov_rt import exceptions
from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.neutron import rest
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.words import VfState
from sriov_rt.vif import privsep

#: Before the name of an interface on top of another, in sysfs.
UPPER = "upper_"

#: What goes back: the error's sentence or None, why not or None, what was
#: changed.
Answer = tuple[str | None, str | None, list[str]]


class VfNotDone(exceptions.SriovRtError):
    """A VF could not be looked at or set; the sentence is its error's."""


class DaemonMissing(exceptions.SriovRtError):
    """The privileged daemon could not be started or does not answer."""

    def __init__(self, why: Exception) -> None:
        self.why = why
        super().__init__(
            f"the privileged daemon gives no answer ({type(why).__name__}: "
            f"{why}); let the agent's user start privsep-helper: see "
            "sriov-rt.filters for rootwrap, or [sriov_rt_privileged] "
            "helper_command"
        )


class PrivilegedVfs:
    """The VFs of this host, by way of the daemon."""

    def start(self) -> None:
        """Start the daemon, so that no port has to wait for that.

        :raises DaemonMissing: see there.
        """
        _told(_ready)

    def settle(self, slot: str, wanted: VfSettings) -> Sequence[str]:
        """Set what is known to differ; return what was changed.

        :param slot: PCI address of a VF.
        :raises VfNotDone: if it could not be, with why.
        :raises DaemonMissing: see there.
        """
        # As JSON has it: a word of ours is no more than a text there.
        plain = json.loads(json.dumps(codec.to_plain(wanted)))
        return _told(lambda: _settle(slot, plain))[1]

    def clean(
        self, slot: str, before: str | None
    ) -> tuple[str | None, Sequence[str]]:
        """Bring a VF at rest to the baseline.

        :param slot: PCI address of a VF.
        :param before: see :func:`rest.why_not`.
        :returns: why it is not at rest, or what was changed.
        :raises VfNotDone: if it could not be, with why.
        :raises DaemonMissing: see there.
        """
        return _told(lambda: _clean(slot, before))


def differing(found: VfSettings, wanted: VfSettings) -> VfSettings:
    """Return of what is wanted that which the kernel tells otherwise.

    What the kernel does not tell cannot have been read back either: it is
    left to the baseline.
    """
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(VfSettings):
        value = getattr(wanted, field.name)
        now = getattr(found, field.name)
        if value is not None and now is not None and now != value:
            changes[field.name] = value
    return VfSettings(**changes)


def settle(vfs: Any, slot: str, wanted: VfSettings) -> Answer:
    """Set a VF right; see PrivilegedVfs.settle.

    :param vfs: the verbs, :class:`sriov_rt.nic.vfs.Vfs`.
    """
    vf = vfs.locate(slot)
    changes = differing(vfs.observe(vf).settings, wanted)
    plan = vfs.plan(vf, changes)
    if plan.is_empty:
        return None, None, []
    vfs.apply(plan)
    return None, None, [str(each) for each in plan.steps]


def clean(vfs: Any, root: Root, slot: str, before: str | None) -> Answer:
    """Bring a VF at rest to the baseline; see PrivilegedVfs.clean.

    :param vfs: the verbs, :class:`sriov_rt.nic.vfs.Vfs`.
    """
    vf = vfs.locate(slot)
    state = vfs.observe(vf)
    why_not = rest.why_not(state, uppers(root, state), before)
    if why_not is not None:
        return None, why_not, []
    plan = vfs.plan_reset(vf)
    if not plan.is_empty:
        vfs.apply(plan)
    return None, None, [str(each) for each in plan.steps]


def uppers(root: Root, vf: VfState) -> Sequence[str]:
    """Return the interfaces on top of a VF's own, in this namespace."""
    if vf.netdev is None:
        return ()
    names = root.list_dir(f"sys/class/net/{vf.netdev}")
    if isinstance(names, Unknown):
        # It has just been taken away: somebody is at it.
        return (str(names),)
    return [
        each.removeprefix(UPPER) for each in names if each.startswith(UPPER)
    ]


def _told(ask: Callable[[], Answer]) -> tuple[str | None, Sequence[str]]:
    try:
        error, why_not, changed = ask()
    except (
        daemon.FailedToDropPrivileges,
        comm.PrivsepTimeout,
        OSError,
    ) as failure:
        raise DaemonMissing(failure) from failure
    if error is not None:
        raise VfNotDone(error)
    return why_not, changed


@functools.cache
def _vfs() -> Any:
    # Only the daemon needs it.
    from sriov_rt.nic.vfs import Vfs

    return Vfs.of_host()


def _answer(act: Callable[[], Answer]) -> Answer:
    # An exception would be made anew on the other side from its arguments
    # alone, and ours take keywords.
    try:
        return act()
    except exceptions.SriovRtError as error:
        return str(error), None, []


@privsep.vif_plug.entrypoint
def _ready() -> Answer:
    _vfs()
    return None, None, []


@privsep.vif_plug.entrypoint
def _settle(slot: str, wanted: Mapping[str, Any]) -> Answer:
    return _answer(
        lambda: settle(_vfs(), slot, codec.from_plain(VfSettings, wanted))
    )


@privsep.vif_plug.entrypoint
def _clean(slot: str, before: str | None) -> Answer:
    return _answer(lambda: clean(_vfs(), Root("/"), slot, before))
