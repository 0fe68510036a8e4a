# SPDX-License-Identifier: Apache-2.0

"""``lean`` takes devices out, and the controllers that served them."""

import unittest

from lxml import etree

from sriov_rt.guest.report import Change
from tests.unit.guest import documents
from tests.unit.guest.documents import LEAN
from tests.unit.guest.documents import devices
from tests.unit.guest.documents import domain
from tests.unit.guest.documents import render

#: What libvirt is told where it would add a device by itself.
NONE = ["memballoon=none", "controller:usb=none"]

SPICE = "<graphics type='spice'/>"
VIDEO = "<video><model type='qxl'/></video>"
SERIAL = "<serial type='pty'/>"

#: A device of each class, and the controllers that it needs.
CLASSES = {
    "video": VIDEO,
    "graphics": "<graphics type='vnc'/>",
    "sound": "<sound model='ich9'/><audio id='1' type='none'/>",
    "channel": (
        "<controller type='virtio-serial'/><channel type='unix'>"
        "<target type='virtio' name='a'/></channel>"
    ),
    "redirdev": (
        "<controller type='usb' model='ich9-ehci1'/>"
        "<redirdev bus='usb' type='tcp'/><redirfilter/>"
    ),
    "smartcard": (
        "<controller type='usb' model='qemu-xhci'/><controller type='ccid'/>"
        "<smartcard mode='host'/>"
    ),
    "usb": (
        "<controller type='usb' model='qemu-xhci'/><hub type='usb'/>"
        "<hostdev mode='subsystem' type='usb'/>"
    ),
    "input": (
        "<controller type='usb' model='piix3-uhci'/>"
        "<input type='tablet' bus='usb'/>"
    ),
    "rng": "<rng model='virtio'><backend model='random'/></rng>",
    "balloon": "<memballoon model='virtio'><stats period='5'/></memballoon>",
    "vsock": "<vsock model='virtio'/>",
    "watchdog": "<watchdog model='i6300esb' action='reset'/>",
    "panic": "<panic model='isa'/>",
}


def kept(*classes: str) -> dict[str, str]:
    """Return the extra specs that keep these classes."""
    return {**LEAN, "sriov_rt:keep": ",".join(classes)}


class ClassesTest(unittest.TestCase):
    def test_each_goes_with_its_controllers(self):
        for name, xml in CLASSES.items():
            with self.subTest(device=name):
                rendered = render(domain(xml), LEAN)
                self.assertEqual(NONE, devices(rendered))
                removed = [
                    each.element
                    for each in rendered.report.changes
                    if each.action == "removed"
                ]
                self.assertEqual(
                    sorted(e.tag for e in etree.fromstring(f"<a>{xml}</a>")),
                    sorted(removed),
                )

    def test_each_stays_if_the_flavor_keeps_it(self):
        for name, xml in CLASSES.items():
            with self.subTest(device=name):
                rendered = render(domain(xml), kept(name))
                before = [e.tag for e in etree.fromstring(f"<a>{xml}</a>")]
                stays = devices(rendered)
                tags = [each.split(":")[0].split("=")[0] for each in stays]
                self.assertEqual(before, tags[: len(before)])
                self.assertFalse(
                    [
                        each
                        for each in rendered.report.changes
                        if each.action == "removed"
                    ]
                )

    def test_vmcoreinfo(self):
        xml = domain(more="<features><acpi/><vmcoreinfo/></features>")
        found = documents.tree(render(xml, LEAN)).find("features")
        self.assertEqual(["acpi"], [each.tag for each in found])
        found = documents.tree(render(xml, kept("vmcoreinfo")))
        self.assertIsNotNone(found.find("features/vmcoreinfo"))

    def test_what_nova_gives_on_request_stays(self):
        xml = domain(CLASSES["watchdog"] + CLASSES["rng"])
        specs = {
            **LEAN,
            "hw:watchdog_action": "reset",
            "hw_rng:allowed": "true",
        }
        found = devices(render(xml, specs))
        self.assertEqual(["watchdog=i6300esb", "rng=virtio"], found[:2])

    def test_standard_leaves_everything(self):
        xml = documents.load("desktop")
        rendered = render(xml, {"sriov_rt:guest": "standard"})
        self.assertFalse(rendered.report.changes)
        self.assertEqual(
            len(etree.fromstring(xml).find("devices")), len(devices(rendered))
        )

    def test_nothing_else_goes(self):
        rest = (
            "<emulator>/bin/q</emulator>"
            "<disk type='file'><target dev='vda' bus='virtio'/></disk>"
            "<controller type='pci' index='0' model='pcie-root'/>"
            "<controller type='pci' index='1' model='pcie-root-port'/>"
            "<controller type='sata'/><controller type='scsi'/>"
            "<interface type='bridge'><model type='virtio'/></interface>"
            "<hostdev mode='subsystem' type='pci'/>"
            "<hostdev mode='capabilities' type='misc'/>"
            "<filesystem type='mount'/><tpm model='tpm-tis'/><nvram/>"
            "<serial type='pty'/><console type='pty'/><iommu model='intel'/>"
            "<memory model='dimm'/><shmem name='a'/><lease/>"
        )
        rendered = render(domain(rest), LEAN)
        before = [e.tag for e in etree.fromstring(f"<a>{rest}</a>")]
        after = [each.tag for each in documents.tree(rendered).find("devices")]
        self.assertEqual([*before, "memballoon", "controller"], after)


class ControllersTest(unittest.TestCase):
    def test_usb_stays_for_a_disk(self):
        xml = domain(
            CLASSES["input"] + "<disk><target dev='sda' bus='usb'/></disk>"
        )
        rendered = render(xml, LEAN)
        self.assertEqual(
            ["controller:usb=piix3-uhci", "disk", "memballoon=none"],
            devices(rendered),
        )
        (note,) = rendered.report.notes
        self.assertIn("disk target.dev=sda", note.message)

    def test_usb_stays_for_input_that_names_no_bus(self):
        usb = "<controller type='usb'/>"
        for device, arch, stays in (
            ("<input type='tablet'/>", "x86_64", True),
            ("<input type='mouse'/>", "x86_64", False),
            ("<input type='evdev'/>", "x86_64", False),
            ("<input type='mouse'/>", "aarch64", True),
            ("<input type='mouse'/>", "s390x", False),
        ):
            with self.subTest(device=device, arch=arch):
                rendered = render(
                    domain(usb + device, arch=arch), kept("input")
                )
                self.assertEqual(stays, "controller:usb" in devices(rendered))

    def test_usb_stays_for_other_devices_on_it(self):
        for device in (
            "<interface type='user'><model type='usb-net'/></interface>",
            "<serial type='pty'><target type='usb-serial'/></serial>",
            "<disk><address type='usb' bus='0' port='1'/></disk>",
        ):
            with self.subTest(device=device):
                hub = "<controller type='usb'/><hub type='usb'/>"
                self.assertEqual(
                    ["controller:usb", "hub"],
                    devices(render(domain(hub + device), LEAN))[:2],
                )

    def test_all_of_a_usb_controller_and_its_companions_go(self):
        xml = domain(
            "<controller type='usb' index='0' model='ich9-ehci1'/>"
            "<controller type='usb' index='0' model='ich9-uhci1'>"
            "<master startport='0'/></controller>"
            "<controller type='usb' index='1' model='qemu-xhci'/>"
        )
        self.assertEqual(NONE, devices(render(xml, LEAN)))

    def test_virtio_serial_stays_for_a_console(self):
        xml = domain(
            CLASSES["channel"]
            + "<console type='pty'><target type='virtio'/></console>"
        )
        self.assertEqual(
            ["controller:virtio-serial", "console", *NONE],
            devices(render(xml, LEAN)),
        )

    def test_none_is_said_once(self):
        xml = domain(
            "<controller type='usb' index='0' model='none'/>"
            "<memballoon model='none'/>"
        )
        rendered = render(xml, LEAN)
        self.assertEqual(
            ["controller:usb=none", "memballoon=none"], devices(rendered)
        )
        self.assertFalse(rendered.report.changes)

    def test_ppc_keeps_usb(self):
        xml = domain("<controller type='usb'/>", arch="ppc64le")
        rendered = render(xml, LEAN)
        self.assertEqual(["controller:usb", NONE[0]], devices(rendered))
        self.assertIn("ppc64le", rendered.report.notes[0].message)
        # No controller of model none: it fails there.
        self.assertEqual(
            [NONE[0]], devices(render(domain(arch="ppc64"), LEAN))
        )


class InterlocksTest(unittest.TestCase):
    def test_the_only_console_stays_if_kept(self):
        xml = domain(VIDEO + "<graphics type='vnc'/>")
        rendered = render(xml, kept("console"))
        self.assertEqual(["video", "graphics", *NONE], devices(rendered))
        told = [each.message for each in rendered.report.notes]
        self.assertEqual(
            [
                "video stays: the graphics needs it",
                "graphics stays: it is the only console",
            ],
            told,
        )

    def test_graphics_go_where_a_serial_console_is(self):
        xml = domain(VIDEO + "<graphics type='vnc'/>" + SERIAL)
        self.assertEqual(
            ["serial", *NONE], devices(render(xml, kept("console")))
        )

    def test_graphics_have_their_video(self):
        # libvirt adds one to graphics that have none.
        xml = domain(VIDEO + "<graphics type='vnc'/>")
        self.assertEqual(
            ["video", "graphics", *NONE],
            devices(render(xml, kept("graphics"))),
        )

    def test_what_spice_carries_has_its_spice(self):
        usb = "<controller type='usb'/>"
        for name, device in (
            ("channel", "<channel type='spicevmc'/>"),
            ("redirdev", usb + "<redirdev bus='usb' type='spicevmc'/>"),
            (
                "smartcard",
                usb + "<smartcard mode='passthrough' type='spicevmc'/>",
            ),
            ("sound", "<audio id='1' type='spice'/>"),
        ):
            with self.subTest(device=name):
                rendered = render(domain(VIDEO + SPICE + device), kept(name))
                self.assertEqual(["video", "graphics"], devices(rendered)[:2])

    def test_what_stays_by_itself_has_its_spice(self):
        usb = "<controller type='usb'/>"
        for device in (
            usb + "<redirdev bus='usb' type='spicevmc'><boot order='1'/>"
            "</redirdev>",
            "<serial type='spiceport'/>",
            "<parallel type='spiceport'/>",
            "<console type='spiceport'/>",
        ):
            with self.subTest(device=device):
                rendered = render(domain(VIDEO + SPICE + device), LEAN)
                self.assertEqual(["video", "graphics"], devices(rendered)[:2])

    def test_a_kept_rng_on_spice_has_it(self):
        xml = (
            "<rng model='virtio'><backend model='egd' type='spicevmc'/></rng>"
        )
        rendered = render(domain(VIDEO + SPICE + xml), kept("rng"))
        self.assertEqual(["video", "graphics"], devices(rendered)[:2])

    def test_a_displayed_mediated_device_has_its_graphics(self):
        for display, stays in (("on", ["graphics", "video"]), ("off", [])):
            xml = domain(
                "<graphics type='vnc'/><video><model type='none'/></video>"
                f"<hostdev mode='subsystem' type='mdev' display='{display}'/>"
            )
            rendered = render(xml, LEAN)
            self.assertEqual([*stays, "hostdev", *NONE], devices(rendered))
        self.assertFalse(rendered.report.notes)

    def test_graphics_have_their_audio(self):
        xml = domain(
            VIDEO + "<graphics type='vnc'><audio id='1'/></graphics>"
            "<sound model='ich9'/><audio id='1' type='none'/>"
        )
        self.assertEqual(
            ["video", "graphics", "audio", *NONE],
            devices(render(xml, kept("graphics"))),
        )
        self.assertEqual(NONE, devices(render(xml, LEAN)))

    def test_spice_has_the_audio_that_libvirt_gives_it(self):
        """It would be back once defined, and removed again, and so on."""
        xml = domain(VIDEO + SPICE + "<audio id='1' type='spice'/>")
        rendered = render(xml, kept("graphics"))
        self.assertEqual(
            ["video", "graphics", "audio", *NONE], devices(rendered)
        )
        self.assertEqual(NONE, devices(render(xml, LEAN)))

    def test_graphics_of_a_pseries_guest_have_their_keyboard(self):
        keyboard = "<input type='keyboard' bus='usb'/>"
        for arch, stays in (("ppc64le", True), ("x86_64", False)):
            xml = domain(VIDEO + "<graphics type='vnc'/>" + keyboard).replace(
                "x86_64", arch
            )
            found = devices(render(xml, kept("graphics")))
            self.assertEqual(stays, "input" in found, found)

    def test_needs_of_needs(self):
        # The redirected boot device needs Spice, which plays through audio.
        xml = domain(
            "<controller type='usb'/><audio id='1' type='spice'/>"
            + VIDEO
            + "<graphics type='spice'><audio id='1'/></graphics>"
            "<redirdev bus='usb' type='spicevmc'><boot order='1'/></redirdev>"
            "<redirfilter><usbdev allow='no'/></redirfilter>"
        )
        rendered = render(xml, LEAN)
        self.assertEqual(
            [
                "controller:usb",
                "audio",
                "video",
                "graphics",
                "redirdev",
                "redirfilter",
                NONE[0],
            ],
            devices(rendered),
        )
        self.assertEqual(rendered.xml, render(rendered.xml, LEAN).xml)

    def test_a_boot_device_stays(self):
        for device in (
            "<hostdev mode='subsystem' type='usb'><boot order='1'/></hostdev>",
            "<redirdev bus='usb' type='tcp'><boot order='1'/></redirdev>",
        ):
            with self.subTest(device=device):
                xml = domain("<controller type='usb'/>" + device)
                rendered = render(xml, LEAN)
                self.assertEqual(3, len(devices(rendered)))
                self.assertIn("boot", rendered.report.notes[0].message)

    def test_the_chipsets_own_devices_stay(self):
        for device in (
            "<input type='mouse' bus='ps2'/>",
            "<watchdog model='itco' action='reset'/>",
            "<panic model='pseries'/>",
        ):
            with self.subTest(device=device):
                rendered = render(domain(device), LEAN)
                self.assertEqual(3, len(devices(rendered)))
                self.assertIn("chipset", rendered.report.notes[0].message)


class ContainerTest(unittest.TestCase):
    def test_libvirt_adds_nothing_to_a_container(self):
        rendered = render(domain("<console type='pty'/>", kind="lxc"), LEAN)
        self.assertEqual(["console"], devices(rendered))
        self.assertFalse(rendered.report.changes)


class ReportTest(unittest.TestCase):
    def test_each_change_says_what_and_why(self):
        xml = domain(
            "<memballoon model='virtio'><address type='pci' domain='0x0000'"
            " bus='0x05' slot='0x00' function='0x0'/></memballoon>"
            "<controller type='usb' model='none'/>"
        )
        removed, added = render(xml, LEAN).report.changes
        self.assertEqual(
            Change(
                "strip",
                "removed",
                "memballoon",
                "model=virtio pci=0x0000:0x05:0x00:0x0",
                "sriov_rt:guest=lean",
            ),
            removed,
        )
        self.assertEqual(
            ("added", "memballoon", "model=none"),
            (added.action, added.element, added.detail),
        )

    def test_text_of_the_document_is_one_short_line(self):
        for name in ("a&#10;CRITICAL forged", "x" * 4000):
            xml = domain(
                "<channel type='unix'>"
                f"<target type='virtio' name='{name}'/></channel>"
            )
            summary = render(xml, LEAN).report.summary()
            self.assertNotIn("\n", summary)
            self.assertLess(len(summary), 500)

    def test_a_summary_of_many_devices_is_short(self):
        summary = render(domain("<rng/>" * 1000), LEAN).report.summary()
        self.assertIn("and 968 more", summary)
        self.assertLess(len(summary), 1000)
