# SPDX-License-Identifier: Apache-2.0

"""libvirt's hook in the machine with SR-IOV NICs: VFs before and after."""

import pathlib
from typing import Any
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import vmlinux
from tests.testbed import walk
from tests.testbed.paths import CHECKOUT
from tests.testbed.rtvm import Result
from tests.testbed.rtvm import debian
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network
from tests.vm import test_vif_kinds

NAME = "sriov-rt-vm-test"
DOMAIN = pathlib.Path(__file__).with_name("domain.xml")
HOOK = CHECKOUT / "etc/libvirt/sriov-rt"
PLACE = "/etc/libvirt/hooks/qemu.d/sriov-rt"
IMAGE = f"/var/lib/libvirt/images/{NAME}.raw"

#: Domains of these tests; the last two are those of the walk-through.
GUESTS = (NAME, "guest1", "guest2")

#: The VF of the domain.
INDEX = 1
ADDRESS = "0000:01:10.2"
MAC = "52:54:00:20:00:01"

#: The guest of the walk-through, the command where a shell finds it, and a
#: PF that nobody has made VFs of.
_MAKE = f"""
set -e
mkdir -p /srv/guest/root/bin /srv/guest/root/dev /srv/guest/root/proc
ln -sf "$1/vmlinux" /srv/guest/vmlinux
cp /bin/busybox /srv/guest/root/bin
cp "$2" /srv/guest/root
ln -sf "$3" /usr/local/bin/sriov-rt
echo 0 > /sys/class/net/{network.PF}/device/sriov_numvfs
"""
_TAKE_AWAY = (
    "rm -rf /srv/guest /usr/local/bin/sriov-rt /etc/sriov_rt/sriov-rt.conf"
)
_READY = """exec 2>&1
export COLUMNS=80 PATH=$PATH:/usr/local/bin
cd /srv/guest
"""

_REQUEST = (
    "<metadata><r:request xmlns:r='https://docs.openstack.org/sriov-rt/"
    "request/1.0' realtime='required' guest='lean'/></metadata>"
)

#: What a guest's port leaves behind. No trust: an 82576 keeps filters of a VF
#: that had it, and such a VF is refused (tests/vm/test_vf_attacks.py).
_DIRTY = f"""
set -e
ip link set {network.PF} vf {INDEX} vlan 100 qos 3
ip link set {network.PF} vf {INDEX} spoofchk off
"""


class HookTestCase(base.VmTestCase):
    """A host whose libvirt has the hook.

    :cvar python: that sriov-rt is installed for, inside.
    """

    python: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Install the hook, and have a libvirtd that has seen it."""
        super().setUpClass()
        cls.python = str(base.product().program("python"))
        cls.addClassCleanup(cls._take_away)
        cls.vm.run(("mkdir", "-p", str(pathlib.PurePath(PLACE).parent)))
        named = f"python={cls.python}"
        text = HOOK.read_text().replace("python=/usr/bin/python3", named)
        cls.vm.push(text.encode(), PLACE)
        cls.vm.run(("chmod", "755", PLACE))
        cls._restart()

    @classmethod
    def _restart(cls) -> None:
        pid = "/run/libvirt/libvirtd.pid"
        script = (
            f"old=$(cat {pid}); kill $old; "
            # Nobody may wait for it, so that it stays as a zombie.
            "for n in $(seq 300); do "
            "grep -qs '^State:.[^Z]' /proc/$old/status || break; "
            "sleep 0.1; done; "
            f"libvirtd --daemon --pid-file {pid}"
        )
        cls.vm.run(("bash", "-c", script), timeout=base.PATIENCE)
        wait_for(
            "libvirtd answers",
            lambda: cls._virsh("version").status == 0,
            timeout=base.PATIENCE,
        )

    @classmethod
    def _take_away(cls) -> None:
        for name in GUESTS:
            cls._virsh("destroy", name)
            cls._virsh("undefine", name)
        cls.vm.run(("rm", "-f", PLACE))
        cls._restart()

    @classmethod
    def _virsh(cls, *arguments: str) -> Result:
        return cls.vm.run(
            ("virsh", "--quiet", *arguments),
            timeout=base.PATIENCE,
            check=False,
        )


@periodic
class HookTest(HookTestCase):
    """A guest with a VF that its owner requests realtime for."""

    @classmethod
    def setUpClass(cls) -> None:
        """Make its disk."""
        super().setUpClass()
        cls.vm.run(("mkdir", "-p", str(pathlib.PurePath(IMAGE).parent)))
        cls.vm.run(("truncate", "-s", "1M", IMAGE))
        # Other tests of this machine may have trusted the VF.
        cls.vm.run(("rm", "-f", f"/run/sriov-rt/vfs/{ADDRESS}"))

    def _ok(self, *arguments: str) -> str:
        done = self._virsh(*arguments)
        self.assertEqual(done.status, 0, done.complaint)
        return done.text

    def _define(self, xml: str) -> None:
        self.vm.push(xml.encode(), "/root/domain.xml")
        self._ok("define", "/root/domain.xml")
        self.addCleanup(self._virsh, "undefine", NAME)

    def _kernel(self) -> dict[str, Any]:
        """Return what the PF says of the VF."""
        return network.vf_settings(self.vm, INDEX)

    def _driver(self) -> str:
        path = f"/sys/bus/pci/devices/{ADDRESS}/driver"
        return self.sh(f"basename $(readlink {path})").text.strip()

    def _assert_clean(self) -> None:
        found = self._kernel()
        self.assertEqual(
            (found["vlan_list"], found["trust"], found["spoofchk"]),
            ([{}], False, True),
        )

    def test_refused_started_clean_and_cleaned(self) -> None:
        """A VF with another's VLAN is clean when its guest has it."""
        self.sh(_DIRTY)
        xml = DOMAIN.read_text().replace("<os>", f"{_REQUEST}<os>", 1)
        self._define(xml)
        refused = self._virsh("start", NAME)
        self.assertIn(
            f"guest={NAME} op=prepare refused: the domain is not what its "
            "request makes of it",
            refused.complaint,
        )
        # libvirt releases what it did not start, too; a VF that the domain
        # never had is left as somebody has set it.
        self.assertEqual(
            [{"vlan": 100, "qos": 3}], self._kernel()["vlan_list"]
        )
        self.assertEqual(self._driver(), "igbvf")

        self._define(self._rendered())
        self._ok("start", NAME)
        self.assertEqual(self._driver(), "vfio-pci")
        self.assertEqual(self._kernel()["address"], MAC)
        self._assert_clean()

        self.sh(f"ip link set {network.PF} vf {INDEX} vlan 200")
        self._ok("destroy", NAME)
        self._assert_clean()
        self.assertEqual(self._driver(), "igbvf")

    def _rendered(self) -> str:
        """Return the defined domain as its request makes it."""
        facts = self.command("host", "show", "--json")
        self.vm.push(facts.stdout, "/root/facts.json")
        rendered = self.command(
            *("guest", "render", "--facts", "/root/facts.json"),
            stdin=self._ok("dumpxml", "--inactive", NAME),
        )
        self.assertEqual(rendered.status, 0, rendered.complaint)
        return rendered.text

    def _call(self, operation: str, stage: str, xml: str) -> None:
        """Call the hook as libvirt does."""
        done = self.vm.run(
            (PLACE, NAME, operation, stage, "-"),
            stdin=xml.encode(),
            timeout=base.PATIENCE,
            check=False,
        )
        self.assertEqual(done.status, 0, done.complaint)

    def test_one_that_is_left_on_vfio_comes_back(self) -> None:
        """As after a libvirtd that was killed before it gave it back."""
        self._define(DOMAIN.read_text().replace("<os>", f"{_REQUEST}<os>", 1))
        xml = self._rendered()
        self._call("prepare", "begin", xml)
        self._assert_clean()
        self.sh(
            f"cd /sys/bus/pci/devices/{ADDRESS}; "
            "echo vfio-pci > driver_override; "
            f"echo {ADDRESS} > driver/unbind; "
            f"echo {ADDRESS} > /sys/bus/pci/drivers_probe"
        )
        self.assertEqual(self._driver(), "vfio-pci")
        self.sh(_DIRTY)
        self._call("release", "end", xml)
        self.assertEqual(self._driver(), "igbvf")
        self._assert_clean()


@periodic
class WalkTest(HookTestCase, network.WireTestCase):
    """The walk-through: a guest that boots, and talks by its VF."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {
        test_vif_kinds.FAR_100: (0, f"{test_vif_kinds.PEER_100}/24", 100),
    }

    @classmethod
    def setUpClass(cls) -> None:
        """Have a guest's kernel and driver, and a PF without VFs."""
        super().setUpClass()
        tree = debian.Unpacker(base.place().cache / "debian").kernel("amd64")
        (image,) = (tree.root / "boot").glob("vmlinuz-*")
        place = base.place().state / "guest"
        place.mkdir(parents=True, exist_ok=True)
        (place / "vmlinux").write_bytes(vmlinux.extract(image.read_bytes()))
        (driver,) = (tree.root / "lib/modules").rglob("igbvf.ko")
        program = base.product().program("sriov-rt")
        cls.addClassCleanup(cls.vm.run, ("bash", "-c", _TAKE_AWAY))
        make = ("bash", "-c", _MAKE, "-", str(place), str(driver), program)
        cls.vm.run(make, timeout=base.PATIENCE)
        # All that has been there before is there again.
        cls.addClassCleanup(network.remake_vfs, cls.vm)
        for name in GUESTS:
            cls.addClassCleanup(cls._virsh, "destroy", name)

    def test_the_walkthrough(self) -> None:
        def shell(script: str) -> tuple[int, str]:
            done = self.sh(f"{_READY}{script}", check=False)
            if "provision" in script:
                network.serve_mailboxes(self.vm, network.MAILBOX_CPU)
            return done.status, done.text

        walk.run(self, walk.PAGES / "libvirt.rst", shell)
