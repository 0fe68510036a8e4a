# SPDX-License-Identifier: Apache-2.0

"""Runs inside: the verbs on VFs of a netdevsim, which takes everything.

netdevsim has no VFs in sysfs, so these are as told; what is written and
read back goes to the kernel and comes from it. Prints JSON: the settings
after each plan, and what ip(8) shows of 64 VFs that were set in one go.
"""

import dataclasses
import json
import pathlib
import subprocess
from typing import Any

from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.nic.families import Families
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.vfs import Vfs

VFS = 64
NUMBER = 77
BUS = pathlib.Path("/sys/bus/netdevsim")
DEBUG = pathlib.Path("/sys/kernel/debug/netdevsim")

#: What an igb refuses, each alone.
REFUSED_BY_IGB = (
    VfSettings(vlan=100, vlan_protocol=VlanProtocol.AD),
    VfSettings(min_tx_rate=50, max_tx_rate=100),
    VfSettings(link_state=LinkState.DISABLE),
    VfSettings(query_rss=True),
)


class Netdevsim(Kernel):
    """Real netlink below told VFs."""

    def pf(self, name: str) -> Pf:
        """Return the PF: a 10 Gb/s link, of no known family."""
        vfs = tuple(
            VfId(name, n, f"0000:01:{n // 8:02x}.{n % 8}") for n in range(VFS)
        )
        return Pf(
            *(name, "0000:00:01.0", "netdevsim", "ffff", "0001", 10000),
            *(True, VFS, vfs),
            # Its VFs have no driver, and never get one.
            probes=False,
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


def remove() -> None:
    """Undo make()."""
    (BUS / "del_device").write_text(str(NUMBER))


def eight(number: int) -> VfSettings:
    """Return eight attributes, unlike the baseline's."""
    return VfSettings(
        mac=f"52:54:00:00:00:{number:02x}",
        vlan=100 + number,
        qos=3,
        spoofchk=False,
        trust=True,
        link_state=LinkState.ENABLE,
        max_tx_rate=1000 + number,
        query_rss=True,
    )


def together(vfs: Vfs, name: str) -> list[dict[str, Any]]:
    """Set eight attributes of all VFs in one go.

    :returns: what ip(8) says of each VF then.
    """
    ids = vfs.pf(name).vfs
    vfs.apply_all(vfs.plan_all({vf: eight(vf.index) for vf in ids}))
    shown = subprocess.run(
        ("ip", "-j", "-d", "link", "show", name),
        check=True,
        capture_output=True,
    )
    (link,) = json.loads(shown.stdout)
    return list(link["vfinfo_list"])


def main() -> None:
    """Set, read back, reset."""
    name = make()
    try:
        vfs = Vfs(Netdevsim(), Families())
        vf = vfs.pf(name).vfs[3]
        after: list[dict[str, Any]] = []
        for wanted in REFUSED_BY_IGB:
            state = vfs.apply(vfs.plan(vf, wanted))
            after.append(dataclasses.asdict(state.settings))
            clean = dataclasses.asdict(vfs.reset(vf).settings)
        found = {"after": after, "clean": clean, "all": together(vfs, name)}
        print(json.dumps(found))
    finally:
        remove()


if __name__ == "__main__":
    main()
