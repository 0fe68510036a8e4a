# SPDX-License-Identifier: Apache-2.0

"""``bare`` takes away idle virtio, and refuses virtio in use."""

import unittest

from sriov_rt.guest import engine
from tests.unit.guest import documents
from tests.unit.guest.documents import BARE
from tests.unit.guest.documents import devices
from tests.unit.guest.documents import domain
from tests.unit.guest.documents import render

NONE = ["memballoon=none", "controller:usb=none"]
CONSOLE = "<console type='pty'><target type='virtio'/></console>"
VIRTIO_SERIAL = "<controller type='virtio-serial' index='0'/>"

#: A device, the code of its refusal, and what the sentence names.
REFUSED = (
    (
        "<disk device='disk'><target dev='vda' bus='virtio'/></disk>",
        "disk_on_virtio",
        ("vda", "hw_disk_bus=sata"),
    ),
    (
        "<disk device='cdrom'><target dev='vdb' bus='virtio'/></disk>",
        "disk_on_virtio",
        ("vdb", "hw_cdrom_bus=sata"),
    ),
    (
        "<controller type='scsi' index='0' model='virtio-scsi'/>"
        "<disk><target dev='sda' bus='scsi'/></disk>",
        "disk_on_virtio",
        ("sda", "hw_scsi_model=lsisas1078"),
    ),
    (
        "<controller type='scsi' index='1' model='virtio-non-transitional'/>"
        "<disk><target dev='sda' bus='scsi'/>"
        "<address type='drive' controller='1'/></disk>",
        "disk_on_virtio",
        ("sda",),
    ),
    (
        "<controller type='scsi' index='0' model='virtio-scsi'/>"
        "<hostdev mode='subsystem' type='scsi'/>",
        "device_on_virtio",
        ("hostdev",),
    ),
    (
        "<interface type='bridge'><mac address='52:54:00:00:00:01'/>"
        "<model type='virtio'/></interface>",
        "nic_on_virtio",
        ("52:54:00:00:00:01", "hw_vif_model=e1000e", "--vnic-type direct"),
    ),
    (
        "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>",
        "nic_needs_virtio",
        ("is vdpa", "--vnic-type direct", "sriov_rt:guest=lean"),
    ),
    (
        "<interface type='vhostuser'><mac address='52:54:00:00:00:01'/>"
        "<model type='e1000e'/></interface>",
        "nic_needs_virtio",
        ("52:54:00:00:00:01", "is vhostuser"),
    ),
    (
        "<filesystem type='mount'><driver type='virtiofs'/>"
        "<target dir='share'/></filesystem>",
        "filesystem_on_virtio",
        ("share",),
    ),
    (
        "<iommu model='virtio'/>",
        "iommu_on_virtio",
        ("hw:viommu_model=intel",),
    ),
    (
        "<disk device='disk'><target dev='vda'/></disk>",
        "disk_on_virtio",
        ("vda", "hw_disk_bus=sata"),
    ),
    (
        "<controller type='scsi' index='0' model='virtio-scsi'/>"
        "<disk><target dev='sda'/></disk>",
        "disk_on_virtio",
        ("sda", "hw_scsi_model=lsisas1078"),
    ),
    (
        "<controller type='scsi' model='lsilogic'/>"
        "<controller type='scsi' model='virtio-scsi'/>"
        "<disk><target dev='sdh' bus='scsi'/></disk>",
        "disk_on_virtio",
        ("sdh",),
    ),
    (
        "<controller type='scsi' index='3' model='virtio-scsi'/>"
        "<disk><target dev='sdaa'/></disk>",
        "disk_on_virtio",
        ("sdaa",),
    ),
    (
        "<controller type='scsi' index='1' model='virtio-scsi'/>"
        "<hostdev mode='subsystem' type='scsi'/>",
        "device_on_virtio",
        ("hostdev",),
    ),
    (
        "<hostdev mode='subsystem' type='scsi_host'>"
        "<source protocol='vhost' wwpn='naa.5123456789abcde0'/></hostdev>",
        "device_on_virtio",
        ("hostdev",),
    ),
    ("<memory model='virtio-mem'/>", "device_on_virtio", ("memory",)),
    ("<memory model='virtio-pmem'/>", "device_on_virtio", ()),
    (
        "<hostdev mode='subsystem' type='scsi_host' model='virtio'/>",
        "device_on_virtio",
        (),
    ),
)

#: Devices that are kept and are virtio, by class.
KEPT = {
    "balloon": "<memballoon model='virtio'/>",
    "channel": "<channel type='unix'><target type='virtio'/></channel>",
    "input": "<input type='keyboard' bus='virtio'/>",
    "rng": "<rng model='virtio-transitional'/>",
    "sound": "<sound model='virtio'/>",
    "video": "<video><model type='virtio'/></video>",
    "vsock": "<vsock model='virtio'/>",
}


class RefusalsTest(unittest.TestCase):
    def _refused(self, xml: str, **specs: str) -> engine.Refused:
        with self.assertRaises(engine.Refused) as caught:
            render(xml, {**BARE, **specs})
        return caught.exception

    def test_each_virtio_device_in_use(self):
        for device, code, named in REFUSED:
            with self.subTest(device=device):
                refused = self._refused(domain(device))
                self.assertEqual([code], documents.codes(refused))
                for text in named:
                    self.assertIn(text, str(refused))

    def test_every_refusal_fits_nova(self):
        # A fault is cut at 255 characters.
        for device, _, _ in REFUSED:
            refused = self._refused(domain(device))
            self.assertLessEqual(len(str(refused)), 255)

    def test_what_the_flavor_keeps_is_named(self):
        for name, device in KEPT.items():
            with self.subTest(device=name):
                refused = self._refused(
                    domain(device), **{"sriov_rt:keep": name}
                )
                self.assertEqual(["kept_on_virtio"], documents.codes(refused))
                self.assertIn(f"sriov_rt:keep={name}", str(refused))

    def test_all_of_them_are_told_at_once(self):
        refused = self._refused(documents.load("nova-dedicated"))
        self.assertEqual(
            ["disk_on_virtio", "disk_on_virtio", "nic_on_virtio"],
            documents.codes(refused),
        )

    def test_very_many_make_a_short_sentence(self):
        disk = "<disk><target dev='vda' bus='virtio'/></disk>"
        refused = self._refused(domain(disk * 500))
        self.assertEqual(500, len(refused.reasons))
        self.assertIn("and 492 more", str(refused))

    def test_the_only_console_if_it_is_kept(self):
        refused = self._refused(
            domain(VIRTIO_SERIAL + CONSOLE), **{"sriov_rt:keep": "console"}
        )
        self.assertEqual(["console_on_virtio"], documents.codes(refused))

    def test_an_unnamed_nic_elsewhere_than_on_x86(self):
        xml = "<interface type='bridge'/>"
        refused = self._refused(domain(xml, arch="aarch64"))
        self.assertEqual(["nic_on_virtio"], documents.codes(refused))


class RemovalsTest(unittest.TestCase):
    def test_a_guest_without_virtio_is_only_stripped(self):
        xml = domain(
            "<disk><target dev='sda' bus='sata'/></disk>"
            "<controller type='scsi' index='0' model='lsisas1078'/>"
            "<disk><target dev='sdb' bus='scsi'/></disk>"
            "<interface type='bridge'><model type='e1000e'/></interface>"
            "<interface type='bridge'/><interface type='hostdev'/>"
            "<hostdev mode='subsystem' type='pci'/>"
            "<serial type='pty'/><iommu model='intel'/>"
            "<rng model='virtio'/>"
        )
        self.assertEqual(
            [
                "disk",
                "controller:scsi=lsisas1078",
                "disk",
                "interface",
                "interface",
                "interface",
                "hostdev",
                "serial",
                "iommu=intel",
                *NONE,
            ],
            devices(render(xml, BARE)),
        )

    def test_disks_that_name_no_bus(self):
        xml = domain(
            "<disk><target dev='hda'/></disk><disk><target dev='sda'/></disk>"
            "<disk device='floppy'><target dev='fda'/></disk>"
            "<controller type='scsi' index='1' model='virtio-scsi'/>"
        )
        self.assertEqual(
            ["disk", "disk", "disk", *NONE], devices(render(xml, BARE))
        )

    def test_a_scsi_disk_elsewhere_than_on_x86(self):
        # libvirt adds a virtio-scsi controller there.
        xml = domain("<disk><target dev='sda'/></disk>", arch="aarch64")
        with self.assertRaises(engine.Refused) as caught:
            render(xml, BARE)
        self.assertEqual(["disk_on_virtio"], documents.codes(caught.exception))

    def test_idle_controllers(self):
        xml = domain(
            "<controller type='scsi' index='0' model='virtio-scsi'/>"
            "<controller type='scsi' index='1' model='lsilogic'/>"
            "<disk><target dev='sda' bus='scsi'/>"
            "<address type='drive' controller='1'/></disk>" + VIRTIO_SERIAL
        )
        self.assertEqual(
            ["controller:scsi=lsilogic", "disk", *NONE],
            devices(render(xml, BARE)),
        )

    def test_idle_controllers_of_one_index(self):
        # libvirt refuses them, but neither is left for a second look.
        one = "<controller type='scsi' index='0' model='virtio-scsi'/>"
        self.assertEqual(NONE, devices(render(domain(one + one), BARE)))

    def test_a_virtio_console(self):
        xml = domain(VIRTIO_SERIAL + CONSOLE)
        self.assertEqual(NONE, devices(render(xml, BARE)))

    def test_a_virtio_console_beside_a_serial_one_that_is_kept(self):
        xml = domain("<serial type='pty'/>" + VIRTIO_SERIAL + CONSOLE)
        specs = {**BARE, "sriov_rt:keep": "console"}
        self.assertEqual(["serial", *NONE], devices(render(xml, specs)))

    def test_a_crypto_device(self):
        self.assertEqual(
            NONE, devices(render(domain("<crypto model='virtio'/>"), BARE))
        )

    def test_arguments_past_libvirt_are_told_of(self):
        xml = domain().replace(
            "</domain>",
            "<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu"
            "/1.0'><q:arg value='-device'/></q:commandline></domain>",
        )
        rendered = render(xml, BARE)
        self.assertIn("qemu:commandline", rendered.report.notes[0].message)
        self.assertIn("-device", rendered.xml)

    def test_a_container_has_no_virtio(self):
        xml = documents.load("nova-container")
        rendered = render(xml, BARE)
        self.assertFalse(rendered.report.changes)
