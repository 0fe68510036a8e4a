# SPDX-License-Identifier: Apache-2.0

"""A plugger without a kernel, for what calls one."""

from sriov_rt.exceptions import SriovRtError
from sriov_rt.vif import errors
from sriov_rt.vif import validation
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.model import KINDS
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.recovery import Recovered

PARENT = "enp1s0v3"
VF = "0000:01:10.6"
MAC = "02:00:5e:10:00:01"


class FakePlugger:
    """Remembers what is plugged.

    :param fail: what each call raises, None to succeed.
    """

    def __init__(self, fail: SriovRtError | None = None) -> None:
        self.fail = fail
        self.asked: list[Plug] = []
        #: What a check raises, None to succeed; and what was checked.
        self.refuse: SriovRtError | None = None
        self.checked: list[Plug] = []
        self.ports: dict[str, Plugged] = {}
        #: Physical network to how many VFs are parents on it.
        self.parents = {"physnet1": 2}
        self.undone: tuple[str, ...] = ()
        #: Whether a NIC is free for the accelerated port of a network.
        self.accelerates = True
        self.asked_at_recovery: list[Plug] | None = None

    def plug(self, want: Plug) -> Plugged:
        """Plug a port."""
        if self.fail:
            raise self.fail
        self.asked.append(want)
        accelerated = want.onload and self.accelerates
        mac = MAC if want.mac is None else want.mac
        plugged = Plugged(
            port=want.port,
            owner=want.owner,
            kind=want.kind,
            mode=want.mode,
            interface=want.name or validation.default(want.port),
            namespace=want.namespace,
            parent=PARENT,
            mac=mac,
            vlan=want.vlan,
            mtu=want.mtu or 1500,
            vf=VF,
            tap="/dev/tap7" if want.kind == Kind.MACVTAP else None,
            network=want.network if accelerated else None,
            accelerated=accelerated,
        )
        return self.ports.setdefault(want.port, plugged)

    def check(self, want: Plug) -> None:
        """Check a port."""
        if self.fail:
            raise self.fail
        if self.refuse:
            raise self.refuse
        self.checked.append(want)

    def offer(self, virt_type: str) -> Offer:
        """Return what a host with the parents offers."""
        if self.fail:
            raise self.fail
        kinds = frozenset(KINDS.get(virt_type, {}))
        return Offer(self.parents, self.parents, kinds)

    def unplug(self, port: str) -> bool:
        """Unplug a port."""
        if self.fail:
            raise self.fail
        return self.ports.pop(port, None) is not None

    def recover(self) -> Recovered:
        """Tell what was said to be interrupted."""
        if self.fail:
            raise self.fail
        self.asked_at_recovery = list(self.asked)
        return Recovered(undone=self.undone)


def no_parent(port: str) -> errors.VifError:
    """Return the error of a host that has no parent left."""
    return errors.NoParent("physnet1", port=port)
