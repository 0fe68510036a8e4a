# SPDX-License-Identifier: Apache-2.0

"""Containers of LXC and of libvirt, whose networks are ports of ours."""

import pathlib
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import walk
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network
from tests.vm import test_vif_kinds

NAME = "sriov-rt-vm-test"
_DOMAIN = pathlib.Path(__file__).with_name("container.xml")
_ROOT = "/srv/container"
PATH = "/srv/lxc"

#: Two addresses on one wire: the ping says by which interface it goes.
_VF_ADDRESS, _MACVLAN_ADDRESS = "192.0.2.1/24", "192.0.2.11/24"

#: A root file system of one program, which ends when it is told to.
MAKE_ROOT = f"""
set -e
mkdir -p {_ROOT}/bin {_ROOT}/dev {_ROOT}/proc {_ROOT}/sys {_ROOT}/tmp
mkdir -p {PATH}/{NAME} /var/lib/lxc /run/lxc
cp /bin/busybox {_ROOT}/bin/busybox
cat > {_ROOT}/bin/init <<'END'
#!/bin/busybox sh
trap 'exit 0' TERM PWR INT
while :; do /bin/busybox sleep 1; done
END
chmod +x {_ROOT}/bin/init
"""

CONFIG = f"""
lxc.uts.name = {NAME}
lxc.rootfs.path = dir:{_ROOT}
lxc.init.cmd = /bin/init
lxc.apparmor.profile = unconfined
"""


@periodic
class ContainerTest(test_vif_kinds.PortTestCase):
    """Each has a whole VF and a macvlan on another."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {
        test_vif_kinds.FAR: (0, f"{test_vif_kinds.PEER}/24", 0),
    }

    @classmethod
    def setUpClass(cls) -> None:
        """Have a root file system, and the command where hooks find it."""
        super().setUpClass()
        cls.vm.run(("bash", "-c", MAKE_ROOT), timeout=base.PATIENCE)
        program = base.product().program("sriov-rt")
        path = "/usr/local/bin/sriov-rt"
        cls.vm.run(("ln", "-s", program, path))
        cls.addClassCleanup(cls.vm.run, ("rm", path))

    def _words(self, kind: str, name: str, address: str) -> tuple[str, ...]:
        return self.words(kind, "--name", name, address=address, namespace="")

    def _assert_both_answer(self, pid: str) -> None:
        """Ping the neighbour by each interface of a container."""
        self.sh(
            f"nsenter -n -t {pid} sysctl -qw net.ipv4.conf.all.arp_ignore=1"
        )
        for name in ("vf-port", "macvlan-port"):
            with self.subTest(name):
                done = self.sh(
                    f"nsenter -n -t {pid} ping -I {name} -c 2 "
                    f"-w {network.ANSWER} {test_vif_kinds.PEER}",
                    check=False,
                )
                self.assertEqual(done.status, 0, done.text + done.complaint)

    def _assert_all_home(self) -> None:
        """No port is left, and each VF is back and clean."""
        self.assertEqual(self.done("vif", "show"), [])
        for vf in self.done("vf", "list", network.PF):
            self.assertEqual(vf["netdev"], f"{network.PF}v{vf['vf']['index']}")
            self.assertEqual(vf["settings"]["mac"], "00:00:00:00:00:00")

    def test_plain_lxc_by_its_hooks(self) -> None:
        """The lines that the command prints plug and unplug both."""
        self.make_room()
        config = [CONFIG]
        for kind, name, address in (
            ("vf", "vf-port", _VF_ADDRESS),
            ("macvlan:bridge", "macvlan-port", _MACVLAN_ADDRESS),
        ):
            words = self._words(kind, name, address)
            config += self.done("vif", "lxc-hook", *words)
        text = "\n".join([*config, ""])
        self.vm.push(text.encode(), f"{PATH}/{NAME}/config")
        lxc = f"-P {PATH} -n {NAME}"
        self.addCleanup(self.sh, f"lxc-stop {lxc} -k", check=False)
        started = self.sh(
            f"lxc-start {lxc} -d -l DEBUG -o /root/lxc.log; status=$?; "
            "grep -E 'ERROR|hook' /root/lxc.log >&2; exit $status",
            check=False,
        )
        self.assertEqual(started.status, 0, started.complaint)
        pid = self.sh(f"lxc-info {lxc} -pH").text.strip()
        self._assert_both_answer(pid)
        self.sh(f"lxc-stop {lxc} -k")
        # The last hook runs when the container has ended already.
        wait_for(
            "the hooks have unplugged both",
            lambda: self.done("vif", "show") == [],
            timeout=base.PATIENCE,
        )
        self._assert_all_home()

    def test_the_walkthrough(self) -> None:
        self.make_room()
        self.addCleanup(
            self.sh, "lxc-stop -P /srv/lxc -n centos1 -k", check=False
        )

        def shell(script: str) -> tuple[int, str]:
            ready = "exec 2>&1; export COLUMNS=80 PATH=$PATH:/usr/local/bin\n"
            done = self.sh(ready + script, check=False)
            return done.status, done.text

        walk.run(self, walk.PAGES / "lxc.rst", shell)
        self._assert_all_home()

    def test_libvirt_lxc_takes_ready_interfaces(self) -> None:
        """By <hostdev mode='capabilities' type='net'>; both come back."""
        self.make_room()
        ports = []
        for kind, name in (("vf", "vf-port"), ("macvlan", "macvlan-port")):
            ports.append(self.plug(*self._words(kind, name, "")))
        self.vm.push(_DOMAIN.read_bytes(), "/root/container.xml")
        virsh = "virsh --quiet --connect lxc:///system"
        self.addCleanup(self.sh, f"{virsh} destroy {NAME}", check=False)
        made = self.sh(f"{virsh} create /root/container.xml", check=False)
        self.assertEqual(made.status, 0, made.complaint)
        pid = self.sh(f"pgrep -P $(cat /run/libvirt/lxc/{NAME}.pid)")
        inside = f"nsenter -n -t {pid.text.split()[0]}"
        self.sh(
            f"{inside} ip address add {_VF_ADDRESS} dev vf-port\n"
            f"{inside} ip address add {_MACVLAN_ADDRESS} dev macvlan-port\n"
            f"{inside} ip link set vf-port up\n"
            f"{inside} ip link set macvlan-port up\n"
        )
        self._assert_both_answer(pid.text.split()[0])
        self.sh(f"{virsh} destroy {NAME}")
        for port in ports:
            self.unplug(port["port"])
        self._assert_all_home()
