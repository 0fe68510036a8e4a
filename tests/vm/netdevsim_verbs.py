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


"""Runs inside: the verbs on VFs of a netdevsim, which takes everything.

netdevsim has no VFs in sysfs, so these are as told; what is written and
read back goes to the kernel and comes from it. Prints JSON: the settings
after each plan, and how long eight attributes on 64 VFs take beside ip(8).
"""

import dataclasses
import json
import pathlib
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from sriov_rt.nic.choose import Families
from sriov_rt.nic.netlink import Rtnetlink
from sriov_rt.nic.settings import LinkState
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.settings import VlanProtocol
from sriov_rt.nic.vfs import Vfs
from sriov_rt.nic.words import Pf
from sriov_rt.nic.words import VfDevice
from sriov_rt.nic.words import VfId

VFS = 64
NUMBER = 77
BUS = pathlib.Path("/sys/bus/netdevsim")
DEBUG = pathlib.Path("/sys/kernel/debug/netdevsim")
TURNS = 1
#: VFs that ip(8) sets; the others would take it as long.
SAMPLE = 4

#: What an igb refuses, each alone.
REFUSED_BY_IGB = (
    VfSettings(vlan=100, vlan_protocol=VlanProtocol.AD),
    VfSettings(min_tx_rate=50, max_tx_rate=100),
    VfSettings(link_state=LinkState.DISABLE),
    VfSettings(query_rss=True),
)


class Kernel:
    """Real netlink below told VFs.

    :param name: the interface of the netdevsim.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        netlink = Rtnetlink()
        self.read = netlink.read
        self.write = netlink.write

    def pf(self, name: str) -> Pf:
        """Return the PF: a 10 Gb/s link, of no known family."""
        vfs = tuple(
            VfId(name, n, f"0000:01:{n // 8:02x}.{n % 8}") for n in range(VFS)
        )
        return Pf(
            *(name, "0000:00:01.0", "netdevsim", "ffff", "0001", 10000),
            *(True, VFS, vfs),
        )

    def device(self, vf: VfId) -> VfDevice:
        """Return a VF without a driver."""
        return VfDevice(None)


def make() -> str:
    """Return the interface of a netdevsim with VFs."""
    (BUS / "new_device").write_text(f"{NUMBER} 1")
    device = BUS / f"devices/netdevsim{NUMBER}"
    (DEBUG / f"netdevsim{NUMBER}/max_vfs").write_text(str(VFS))
    (device / "sriov_numvfs").write_text(str(VFS))
    (name,) = (each.name for each in (device / "net").iterdir())
    return name


def eight(number: int, turn: int) -> VfSettings:
    """Return eight attributes, others each turn."""
    odd = bool(turn % 2)
    return VfSettings(
        mac=f"52:54:00:00:{turn:02x}:{number:02x}",
        vlan=100 + turn,
        qos=turn % 8,
        spoofchk=odd,
        trust=odd,
        link_state=LinkState.ENABLE if odd else LinkState.DISABLE,
        max_tx_rate=1000 + turn,
        query_rss=odd,
    )


def by_ip(name: str, number: int, each: VfSettings) -> None:
    """Set the same by a process for each attribute."""

    def switch(on: bool | None) -> str:
        return "on" if on else "off"

    words: Sequence[tuple[str, ...]] = (
        ("mac", each.mac or ""),
        ("vlan", str(each.vlan)),
        ("vlan", str(each.vlan), "qos", str(each.qos)),
        ("spoofchk", switch(each.spoofchk)),
        ("trust", switch(each.trust)),
        ("state", str(each.link_state)),
        ("max_tx_rate", str(each.max_tx_rate)),
        ("query_rss", switch(each.query_rss)),
    )
    for some in words:
        subprocess.run(
            ("ip", "link", "set", name, "vf", str(number), *some), check=True
        )


def compare(vfs: Vfs, name: str) -> dict[str, float]:
    """Return the seconds of both ways, each the best of its turns."""
    ids = vfs.pf(name).vfs
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(TURNS):
        began = time.perf_counter()
        plans = vfs.plan_all({vf: eight(vf.index, 2 * turn + 1) for vf in ids})
        vfs.apply_all(plans)
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        for vf in ids[:SAMPLE]:
            by_ip(name, vf.index, eight(vf.index, 2 * turn + 2))
        theirs.append((time.perf_counter() - began) * VFS / SAMPLE)
    return {"ours_s": min(ours), "ip_s": min(theirs)}


def main() -> None:
    """Set, read back, reset; then measure."""
    name = make()
    try:
        vfs = Vfs(Kernel(name), Families())
        vf = vfs.pf(name).vfs[3]
        after: list[dict[str, Any]] = []
        for wanted in REFUSED_BY_IGB:
            state = vfs.apply(vfs.plan(vf, wanted))
            after.append(dataclasses.asdict(state.settings))
            clean = dataclasses.asdict(vfs.reset(vf).settings)
        print(
            json.dumps(
                {"after": after, "clean": clean, "time": compare(vfs, name)}
            )
        )
    finally:
        (BUS / "del_device").write_text(str(NUMBER))


if __name__ == "__main__":
    main()
