# SPDX-License-Identifier: Apache-2.0

"""A kernel whose NICs behave as their drivers do."""

import contextlib
import dataclasses
import errno
import fcntl
import pathlib
import shutil
import tempfile
import weakref
from unittest import mock

from sriov_rt.host.interfaces import DEVICES
from sriov_rt.host.root import Root
from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.nic import errors
from sriov_rt.nic import families
from sriov_rt.nic.families import Families
from sriov_rt.nic.model import ADDRESS_RANDOM
from sriov_rt.nic.model import ADDRESS_SET
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.vfs import Vfs

#: As after its creation, with a driver bound.
FRESH = VfSettings(
    mac=NO_MAC,
    vlan=0,
    qos=0,
    vlan_protocol=VlanProtocol.Q,
    spoofchk=True,
    trust=False,
    link_state=LinkState.AUTO,
    min_tx_rate=0,
    max_tx_rate=0,
)
ADMIN_MAC = "52:54:00:12:34:56"
_VF_DRIVERS = {"igb": "igbvf", "ixgbe": "ixgbevf", "sfc": "sfc"}
_IDS = {
    "ixgbe": ("8086", "10fb"),
    "i40e": ("8086", "1572"),
    "ice": ("8086", "1592"),
    "sfc": ("1924", "0b03"),
    "igb": ("8086", "10c9"),
    "nobody": ("ffff", "0001"),
}


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class FakeKernel:
    """A Kernel with one PF, enp1s0, with VFs 0000:01:10.N.

    :param driver: of the PF; decides how it behaves.
    :param fail: attribute to the errnos that its next writes get.
    """

    def __init__(self, driver="igb", vfs=2, *, carrier=True, speed=None):
        self.driver = driver
        self.carrier = carrier
        self.speed = speed or (1000 if driver == "igb" else 10000)
        self.probes = True
        self.total = 8
        self.ids = _IDS.get(driver, ("ffff", "0001"))
        self.fail = {}
        self.bind_fails = []
        self.late_random = 0
        self.deaf = 0
        self.taken = ()
        self.stuck = False
        self.untold = {}
        #: Of each VF; a driver that counts none has zeros.
        self.counted = {}
        self.writes = []
        self.reads = 0
        self.binds = []
        self.flrs = []
        self.made = []
        self.kept_rate = {}
        self.resetting = {}
        self.closed = False
        self.carrying, self.with_address = set(), set()
        self.mtu_bounds = (68, 9216)
        self.vf_drivers = {_VF_DRIVERS.get(driver, "iavf"), "vfio-pci"}
        self.root = pathlib.Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self.root, ignore_errors=True)
        (self.root / DEVICES).mkdir(parents=True)
        self.tenancies = Tenancies(Root(str(self.root)), Clock())
        self._make(vfs)

    def _make(self, number):
        #: What a VF gets beside its own MAC, by its index.
        self.filters = {}
        devices = self.root / DEVICES
        old = sorted(devices.iterdir())
        for each in old:
            each.rename(self.root / f"old-{each.name}")
        for index in range(number):
            (devices / f"0000:01:10.{index}").mkdir()
        # Only now, so that none of the new ones has the inode of an old one.
        for each in old:
            (self.root / f"old-{each.name}").rmdir()
        self.settings = dict.fromkeys(range(number), FRESH)
        self.admin = dict.fromkeys(range(number), NO_MAC)
        if self.driver == "sfc":
            # Its PF gives each VF a MAC, and does not report spoofchk.
            for index in range(number):
                mac = self.admin[index] = f"02:0f:53:00:00:{index:02x}"
                self.settings[index] = dataclasses.replace(
                    FRESH, mac=mac, spoofchk=None
                )
        self.devices = {
            index: self._bound(index, f"enp1s0v{index}", self.admin[index])
            for index in range(number)
        }
        if self.driver == "igb":
            for index in range(number):
                self._tell(index)

    def _tell(self, index):
        """Let a VF's driver tell the PF the MAC that it made up."""
        if self.deaf:
            self.deaf -= 1
        elif self.admin[index] == NO_MAC:
            self.report(index, self.devices[index].mac)

    def trusted_filters(self, index):
        """Forget what filters a VF has set; igb's PF does not."""
        if self.driver != "igb":
            self.filters.pop(index, None)

    def _bound(self, index, netdev, admin):
        made_up = admin == NO_MAC
        mac = f"be:ef:00:00:{len(self.binds):02x}:{index:02x}"
        return VfDevice(
            driver=_VF_DRIVERS.get(self.driver, "iavf"),
            netdev=netdev,
            iommu_group=40 + index,
            numa_node=0,
            mac=mac if admin == NO_MAC else admin,
            address_type=ADDRESS_RANDOM if made_up else 0,
            mtu=1500,
            promisc=False,
            allmulti=False,
            up=False,
        )

    def change(self, index, **settings):
        """Set attributes behind everybody's back."""
        if settings.get("mac", self.devices[index].mac) != (
            self.devices[index].mac
        ):
            self.admin[index] = settings["mac"]
        old = self.settings[index]
        self.settings[index] = dataclasses.replace(old, **settings)

    def change_device(self, index, **fields):
        old = self.devices[index]
        self.devices[index] = dataclasses.replace(old, **fields)

    def dirty(self, index):
        """Do to a VF what a tenant can."""
        self.change_device(
            index,
            mac="66:66:66:66:66:66",
            address_type=ADDRESS_SET,
            promisc=True,
            allmulti=True,
        )
        self.report(index, "66:66:66:66:66:66")

    def report(self, index, mac):
        """Let the PF show a MAC that was not set through it."""
        old = self.settings[index]
        self.settings[index] = dataclasses.replace(old, mac=mac)

    # kernel.Kernel

    def pfs(self):
        return ("enp1s0",)

    def pf(self, name):
        if name != "enp1s0":
            raise errors.NoSuchDevice(name, None, "there is none")
        return Pf(
            name="enp1s0",
            address="0000:01:00.0",
            driver=self.driver,
            vendor=self.ids[0],
            product=self.ids[1],
            speed_mbps=self.speed if self.carrier else None,
            carrier=self.carrier,
            total_vfs=self.total,
            vfs=tuple(map(vf_id, sorted(self.settings))),
            probes=self.probes,
        )

    def locate(self, name):
        for index in self.settings:
            if name in (f"0000:01:10.{index}", self.devices[index].netdev):
                return vf_id(index)
        raise errors.NotAVf(name, None, "it is no VF")

    def read(self, pf):
        self.reads += 1
        found = dict(self.settings)
        for index, times in self.untold.items():
            if times:
                self.untold[index] -= 1
                del found[index]
        return found

    def counters(self, pf):
        zeros = dict.fromkeys(("rx_packets", "tx_bytes"), 0)
        return {
            index: self.counted.get(index, zeros) for index in self.settings
        }

    def is_vf(self, address):
        return any(vf_id(each).address == address for each in self.devices)

    def device(self, vf):
        if vf.index not in self.devices:
            raise errors.NoSuchDevice(f"{vf}", None, "the VF has gone")
        return self.devices[vf.index]

    def write(self, pf, changes):
        self.writes.append(dict(changes))
        for index, settings in changes.items():
            self._set(index, settings)

    def set_netdev(self, netdev, settings):
        for index, device in self.devices.items():
            if device.netdev == netdev:
                self.change_device(index, **_given(settings))
                return
        raise errors.from_errno(errno.ENODEV, netdev)

    def mtus(self, netdev):
        return self.mtu_bounds

    def carries(self, netdev):
        return netdev in self.carrying

    def addressed(self, netdev):
        return netdev in self.with_address

    def check_driver(self, vf, driver):
        if driver not in self.vf_drivers:
            raise errors.UnsupportedByNic(
                f"{vf}",
                "driver",
                f"the driver '{driver}' is for other devices",
            )

    def set_mac(self, netdev, mac):
        for index, device in self.devices.items():
            if device.netdev == netdev:
                self.change_device(index, mac=mac)
                self.report(index, mac)
                return
        raise errors.from_errno(errno.ENODEV, netdev)

    def rename(self, netdev, name):
        if name in self.taken:
            raise errors.from_errno(errno.EEXIST, netdev)
        for index, device in self.devices.items():
            if device.netdev == netdev:
                self.change_device(index, netdev=name)
                return
        raise errors.from_errno(errno.ENODEV, netdev)

    def bind(self, vf, driver):
        self.binds.append((vf.index, driver))
        if self.bind_fails:
            code = self.bind_fails.pop(0)
            if code:
                raise errors.from_errno(code, f"{vf}", "driver")
        if driver == "vfio-pci":
            self.devices[vf.index] = VfDevice(driver, iommu_group=40)
            return
        admin = self.admin[vf.index]
        if self.late_random:
            self.late_random -= 1
            admin = NO_MAC
        new = self._bound(vf.index, f"eth{vf.index}", admin)
        self.devices[vf.index] = new
        self.trusted_filters(vf.index)
        self._tell(vf.index)

    def flr(self, vf):
        self.flrs.append(vf.index)

    def provision(self, pf, number, *, probe):
        self.probes = probe
        if number and number == len(self.settings):
            return
        if number and self.settings:
            raise errors.from_errno(errno.EBUSY, pf, "vfs")
        if number > self.total:
            raise errors.from_errno(errno.ERANGE, pf, "vfs")
        self.made.append((number, probe))
        self._make(number)
        if not probe:
            for index in self.devices:
                self.devices[index] = VfDevice(None, iommu_group=40 + index)
                self.report(index, self.admin[index])

    # drivers

    def _set(self, index, settings):
        given = _given(settings)
        if index not in self.settings:
            raise errors.from_errno(errno.EINVAL, f"enp1s0/{index}")
        for name in given:
            self._fail(index, name)
        if self.resetting.get(index, 0):
            self.resetting[index] -= 1
            code = errno.EBUSY if self.driver == "ice" else errno.EAGAIN
            raise errors.from_errno(code, f"enp1s0/{index}")
        given.pop("vlan_protocol", None)
        if "vlan" in given:
            protocol = settings.vlan_protocol or VlanProtocol.Q
            if protocol is VlanProtocol.AD and self.driver != "i40e":
                self._refuse(index, errno.EPROTONOSUPPORT)
            given["vlan_protocol"] = protocol
        behave = getattr(self, f"_{self.driver}", None)
        if behave is not None:
            behave(index, given)
        if "mac" in given:
            self.admin[index] = given["mac"]
        old = self.settings[index]
        self.settings[index] = dataclasses.replace(old, **given)

    def _fail(self, index, name):
        codes = self.fail.get(name)
        if codes:
            code = codes[0] if codes[-1] is ... else codes.pop(0)
            if code:
                self._refuse(index, code)

    def _refuse(self, index, code):
        raise errors.from_errno(code, f"enp1s0/{index}")

    def _igb(self, index, given):
        if given.keys() & {"link_state", "query_rss"}:
            self._refuse(index, errno.EOPNOTSUPP)
        if "max_tx_rate" in given and (
            not self.carrier
            or given["min_tx_rate"]
            or given["max_tx_rate"] > self.speed
        ):
            self._refuse(index, errno.EINVAL)

    def _ixgbe(self, index, given):
        if "max_tx_rate" in given and (
            not self.carrier
            or self.speed != 10000
            or given["min_tx_rate"]
            or 0 < given["max_tx_rate"] < 11
            or given["max_tx_rate"] > 10000
        ):
            self._refuse(index, errno.EINVAL)

    def _i40e(self, index, given):
        if "query_rss" in given:
            self._refuse(index, errno.EOPNOTSUPP)
        if given.get("min_tx_rate"):
            self._refuse(index, errno.EINVAL)
        if "max_tx_rate" in given:
            # It remembers what was asked and keeps something else.
            rate = given["max_tx_rate"]
            kept = max(rate, 50) // 50 * 50 if rate else 0
            self.kept_rate[index] = kept
        if given.get("trust", self.settings[index].trust) != (
            self.settings[index].trust
        ):
            self.resetting[index] = 3
        self._take_mac(index, given)

    def _ice(self, index, given):
        if "query_rss" in given:
            self._refuse(index, errno.EOPNOTSUPP)
        self._take_mac(index, given)

    def _take_mac(self, index, given):
        """The VF's driver asks for the MAC anew, unless it is stuck."""
        if "mac" in given and given["mac"] != NO_MAC and not self.stuck:
            # iavf leaves addr_assign_type as it is.
            self.change_device(index, mac=given["mac"])

    def _sfc(self, index, given):
        if given.keys() & {"max_tx_rate", "trust", "query_rss"} or (
            given.get("spoofchk")
        ):
            self._refuse(index, errno.EOPNOTSUPP)
        if given.get("qos") or given.get("mac") == NO_MAC:
            self._refuse(index, errno.EINVAL)
        given.pop("spoofchk", None)
        self._take_mac(index, given)

    def _bnx2x(self, index, given):
        # bnx2x_set_vf_mac: is_valid_ether_addr
        if given.get("mac") == NO_MAC:
            self._refuse(index, errno.EINVAL)

    def _mlx4_core(self, index, given):
        # mlx4_set_vf_mac, mlx4_set_vf_spoofchk; VLANs: mlx4_get_vf_config
        now = self.settings[index]
        mac = given.get("mac", now.mac)
        if now.spoofchk and mac == NO_MAC != now.mac:
            self._refuse(index, errno.EPERM)
        if given.get("spoofchk") and mac == NO_MAC:
            self._refuse(index, errno.EPERM)
        if given.keys() & {"trust", "query_rss"}:
            self._refuse(index, errno.EOPNOTSUPP)
        if given.get("vlan") == 0:
            given["vlan"] = 4095

    def _truncating(self, index, given):
        """A NIC of no row that cuts rates and shows it."""
        if given.get("max_tx_rate"):
            given["max_tx_rate"] -= given["max_tx_rate"] % 50


def _given(settings):
    return {
        field.name: value
        for field in dataclasses.fields(settings)
        if (value := getattr(settings, field.name)) is not None
    }


def vf_id(index):
    return VfId("enp1s0", index, f"0000:01:10.{index}")


def vfs(kernel, users=None, kind=None):
    """Return the verbs over a kernel, with time that does not pass."""
    return Vfs(kernel, Families(families.BUILT_IN), Clock(), users, kind)


@contextlib.contextmanager
def locked_by_another(tenancies, address):
    """Have another process hold a VF: by a file description of its own."""
    tenancies.check()
    path = tenancies.directory / f".lock.{address}"
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def is_locked(tenancies, address):
    """Return whether anybody holds a VF, this thread included."""
    try:
        with locked_by_another(tenancies, address):
            return False
    except BlockingIOError:
        return True


def refused_while_another_holds(test, kernel, address, act):
    """Check that an act on a VF is refused, and that nothing is written."""
    before = len(kernel.writes) + len(kernel.binds)
    holders = kernel.tenancies.get(address)
    with (
        locked_by_another(kernel.tenancies, address),
        test.assertRaises(errors.Locked),
    ):
        act()
    test.assertEqual(before, len(kernel.writes) + len(kernel.binds))
    test.assertEqual(holders, kernel.tenancies.get(address))


class Taken(Exception):
    """What another thread's hold of a lock is to a test."""


class TakenLock:
    """A lock of threads that another holds: whoever takes it fails."""

    def __enter__(self):
        raise Taken

    def __exit__(self, *_):
        raise AssertionError("it was never taken")


class Killed(BaseException):
    """What SIGKILL is: nobody's ``except`` but the test's catches it."""


def killed_at(kernel, number, act):
    """Do something that is killed at one of its writes; return if it was.

    Before and after each write of the kernel's and of the store of VFs.
    """
    count = 0

    def ticking(real):
        def ticked(*args, **named):
            for write in (None, real):
                nonlocal count
                count += 1
                if count == number:
                    raise Killed
                done = write and write(*args, **named)
            return done

        return ticked

    with contextlib.ExitStack() as stack:
        for of, name in (
            (kernel, "write"),
            (kernel, "bind"),
            (kernel.tenancies, "_put"),
        ):
            patched = mock.patch.object(of, name, ticking(getattr(of, name)))
            stack.enter_context(patched)
        try:
            act()
        except Killed:
            return True
    return False
