# SPDX-License-Identifier: Apache-2.0

"""Attributes on every VF of a PF, beside ip(8).

What is ours is planned, written and read back; ip(8) reads nothing back.
Prints rows as JSON::

    python -m tests.benchmarks.inside.attributes netdevsim enp1s0
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic.errors import NicError
from sriov_rt.nic.families import Families
from sriov_rt.nic.model import VfId
from sriov_rt.nic.vfs import Vfs
from tests.benchmarks.measure import row
from tests.vm import netdevsim_verbs

#: How often the attributes are set by each; the best time counts.
TURNS = 3

#: How many VFs get a process for each attribute; the others would each take
#: as long.
SAMPLE = 2

#: Not a PF, but one that is made here and takes all attributes.
NETDEVSIM = "netdevsim"


def values(index: int, turn: int) -> Mapping[str, Any]:
    """Return what a VF is set to; no value is that of the turn before.

    :param index: of the VF.
    :param turn: from 0.
    """
    odd = turn % 2
    return {
        "mac": f"02:00:5e:{30 + odd}:00:{index:02x}",
        "vlan": 100 + odd,
        "qos": 1 + odd,
        "spoofchk": not odd,
        "trust": bool(odd),
        "max_tx_rate": 100 + 100 * odd,
        "link_state": (LinkState.ENABLE, LinkState.DISABLE)[odd],
        "query_rss": not odd,
    }


def words(name: str, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how ip-link(8) is told one attribute."""
    value = wanted[name]
    if name == "qos":
        return ("vlan", str(wanted["vlan"]), "qos", str(value))
    spelt = {"link_state": "state"}.get(name, name)
    if isinstance(value, bool):
        value = "on" if value else "off"
    return (spelt, str(value))


def supported(vfs: Vfs, vf: VfId) -> list[str]:
    """Return the attributes that a NIC takes."""
    found = []
    for name, value in values(vf.index, 0).items():
        try:
            vfs.plan(vf, VfSettings(**{name: value}))
        except NicError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        found.append(name)
    return found


class Subjects:
    """Who sets the same attributes of the same VFs.

    :param some: the VFs, of one PF.
    :param names: the attributes.
    """

    def __init__(
        self, vfs: Vfs, some: Sequence[VfId], names: Collection[str]
    ) -> None:
        self._vfs = vfs
        self._some = some
        self._names = names

    def ours(self, turn: int) -> Sequence[VfId]:
        """Plan, write and read back."""
        self._vfs.apply_all(self._vfs.plan_all(self._wanted(turn, self._some)))
        return self._some

    def ip(self, turn: int) -> Sequence[VfId]:
        """Run a process for each attribute of a few."""
        some = self._some[:SAMPLE]
        for command in self._commands(turn, some):
            subprocess.run(("ip", *command), check=True)
        return some

    def batch(self, turn: int) -> Sequence[VfId]:
        """Run one process for all of them."""
        commands = self._commands(turn, self._some)
        lines = "\n".join(map(" ".join, commands))
        subprocess.run(("ip", "-batch", "-"), input=lines.encode(), check=True)
        return self._some

    def seconds(
        self, action: Callable[[int], Sequence[VfId]], turn: int
    ) -> float:
        """Return how long an action took for each VF, and see what it did.

        :param turn: whose values are set.
        """
        began = time.perf_counter()
        some = action(turn)
        took = time.perf_counter() - began
        for plan in self._vfs.plan_all(self._wanted(turn, some)):
            # A VF's driver aside, which ip(8) leaves alone.
            left = [s for s in plan.steps if s.attribute in self._names]
            assert not left, left
        return took / len(some)

    def _wanted(
        self, turn: int, some: Sequence[VfId]
    ) -> Mapping[VfId, VfSettings]:
        return {
            vf: VfSettings(
                **{
                    name: value
                    for name, value in values(vf.index, turn).items()
                    if name in self._names
                }
            )
            for vf in some
        }

    def _commands(
        self, turn: int, some: Sequence[VfId]
    ) -> list[tuple[str, ...]]:
        return [
            (
                *("link", "set", vf.pf, "vf", str(vf.index)),
                *words(name, values(vf.index, turn)),
            )
            for vf in some
            for name in self._names
        ]


def compare(subjects: Subjects) -> list[float]:
    """Return the best times of ours, ip(8) and its batch, in s a VF."""
    order = (subjects.ours, subjects.ip, subjects.batch)
    times = [float("inf")] * len(order)
    # Three subjects and two sets of values: no turn finds its own.
    for turn in range(TURNS * len(order)):
        which = turn % len(order)
        took = subjects.seconds(order[which], turn)
        times[which] = min(times[which], took)
    return times


def rows(
    what: str, vfs: Vfs, pf: str, leave_out: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of one PF.

    :param what: what it is called in them.
    :param pf: its interface.
    :param leave_out: attributes.
    """
    some = vfs.pf(pf).vfs
    names = [n for n in supported(vfs, some[0]) if n not in leave_out]
    ours, ip, batch = compare(Subjects(vfs, some, names))
    for vf in some:
        vfs.reset(vf)
    name = f"{len(names)} attributes of {len(some)} {what}"
    return [
        row(
            f"{name} / {peer}",
            ours * 1e3,
            "ms/VF",
            peer=took * 1e3,
        )
        for peer, took in (("ip(8) each", ip), ("ip -batch", batch))
    ]


def of_netdevsim() -> list[dict[str, Any]]:
    """Return the rows of a netdevsim that is made for them."""
    name = netdevsim_verbs.make()
    try:
        vfs = Vfs(netdevsim_verbs.Netdevsim(), Families())
        return rows("VFs (netdevsim)", vfs, name)
    finally:
        netdevsim_verbs.remove()


def of_igb(pf: str) -> list[dict[str, Any]]:
    """Return the rows of an 82576, with MACs and without.

    An igbvf takes a MAC when its driver is bound, which is ours to do and
    which ip(8) leaves to somebody else. Trust is left out: the PF keeps the
    MAC filters of a VF that has had it, which is not to be reset for another
    tenant then.
    """
    vfs = Vfs.of_host()
    return [
        *rows("VFs (igb), no MAC", vfs, pf, ("mac", "trust")),
        *rows("VFs (igb), bound again", vfs, pf, ("trust",)),
    ]


def main() -> None:
    """Print the rows of the PFs that are named."""
    found = []
    for name in sys.argv[1:]:
        found += of_netdevsim() if name == NETDEVSIM else of_igb(name)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
