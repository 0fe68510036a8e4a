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

"""Eight attributes on every VF of a PF, beside ip(8) a process each.

To be run inside of a machine that has such a PF. A NIC that does not take
eight, as igb, is measured with those that it takes::

    python -m tests.vm.bench_vf enp1s0
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.nic.errors import NicError
from sriov_rt.nic.settings import LinkState
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.vfs import Vfs
from sriov_rt.nic.words import VfId

#: How many attributes, and how often they are set; the best time counts.
ATTRIBUTES = 8
TURNS = 5

#: Of the time that ip(8) takes.
TARGET = 0.2


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
        "min_tx_rate": 10 + 10 * odd,
        "query_rss": bool(odd),
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


def supported(
    vfs: Vfs, vf: VfId, leave_out: Collection[str] = ()
) -> list[str]:
    """Return the attributes that a NIC takes, at most ATTRIBUTES."""
    found = []
    for name, value in values(vf.index, 0).items():
        if name in leave_out:
            continue
        try:
            vfs.plan(vf, VfSettings(**{name: value}))
        except NicError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        found.append(name)
    return found[:ATTRIBUTES]


def run(
    pf: str, count: int | None = None, leave_out: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows, in the form of tests.benchmarks.

    :param count: of VFs; None for all that there are.
    :param leave_out: attributes; a MAC binds the VF's driver again, which
        ip(8) leaves to whoever finds out.
    """
    vfs = Vfs.of_host()
    some = [each.id for each in vfs.list(pf)][:count]
    names = supported(vfs, some[0], leave_out)
    ours, peer = float("inf"), float("inf")
    for turn in range(0, 2 * TURNS, 2):
        ours = min(ours, _seconds(lambda t=turn: _ours(vfs, some, names, t)))
        peer = min(peer, _seconds(lambda t=turn: _ip(some, names, t + 1)))
        _check(vfs, some, names, turn + 1)
    for vf in some:
        vfs.reset(vf)
    return [
        {
            "name": (
                f"{len(names)} attributes on {len(some)} VFs, verified"
                " / ip(8) each, not verified"
            ),
            "ours": ours * 1e3,
            "peer": peer * 1e3,
            "ratio": ours / peer,
            "target": TARGET,
            "unit": "ms",
        }
    ]


def _seconds(action: Any) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _wanted(index: int, names: Sequence[str], turn: int) -> VfSettings:
    told = values(index, turn)
    return dataclasses.replace(
        VfSettings(), **{name: told[name] for name in names}
    )


def _ours(
    vfs: Vfs, some: Sequence[VfId], names: Sequence[str], turn: int
) -> None:
    wanted = {vf: _wanted(vf.index, names, turn) for vf in some}
    vfs.apply_all(vfs.plan_all(wanted))


def _ip(some: Sequence[VfId], names: Sequence[str], turn: int) -> None:
    for vf in some:
        told = values(vf.index, turn)
        command = ("ip", "link", "set", vf.pf, "vf", str(vf.index))
        for name in names:
            subprocess.run((*command, *words(name, told)), check=True)


def _check(
    vfs: Vfs, some: Sequence[VfId], names: Sequence[str], turn: int
) -> None:
    """Both have set the same: what one sets, the other would not change."""
    wanted = {vf: _wanted(vf.index, names, turn) for vf in some}
    for each in vfs.plan_all(wanted):
        left = [step for step in each.steps if step.attribute in names]
        assert not left, left


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.vm.bench_vf", description=__doc__
    )
    parser.add_argument("pf", help="interface of the PF")
    parser.add_argument("--vfs", type=int, help="how many; all by default")
    parser.add_argument(
        "--leave-out", nargs="*", default=(), help="attributes, such as mac"
    )
    args = parser.parse_args()
    rows = run(args.pf, args.vfs, args.leave_out)
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
