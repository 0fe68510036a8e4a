# SPDX-License-Identifier: Apache-2.0

"""A document through all hooks: idempotent, told of, and still libvirt's."""

import pathlib
import re
import unittest
from collections.abc import Mapping

import hypothesis
from hypothesis import strategies
from lxml import etree

from sriov_rt import request
from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.hook import Context
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.strip import Strip
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.request.words import DeviceClass
from tests.unit import builders
from tests.unit.guest import documents
from tests.unit.guest.documents import REALTIME
from tests.unit.guest.documents import render

RT_HOST = builders.realtime_host()

#: libvirt's own schema of a domain; libvirt-daemon has it.
SCHEMA = pathlib.Path("/usr/share/libvirt/schemas/domain.rng")

FLAVORS: tuple[Mapping[str, str], ...] = (
    {},
    {"sriov_rt:guest": "lean"},
    {"sriov_rt:guest": "lean", "sriov_rt:keep": "console,channel,rng,usb"},
    {"sriov_rt:guest": "lean", "sriov_rt:keep": "redirdev,sound,smartcard"},
    {"sriov_rt:guest": "bare"},
    {"sriov_rt:guest": "bare", "sriov_rt:keep": "console"},
    {**REALTIME, "sriov_rt:guest": "lean"},
    {
        **REALTIME,
        "sriov_rt:guest": "bare",
        "sriov_rt:vcpu_sched": "rr:5",
        "sriov_rt:iothread_sched": "fifo:2",
        "sriov_rt:emulator_sched": "fifo:3",
    },
)

#: What takes the virtio out of a document, as image properties would.
PLAIN = (
    (r'(<target dev="[a-z]+") bus="virtio"', r'\1 bus="sata"'),
    (r'(<interface(?:.|\n)*?<model type)="virtio"', r'\1="e1000e"'),
    (r'model="virtio-scsi"', 'model="lsisas1078"'),
    (r"<filesystem type=\"mount\" accessmode=\"m(?:.|\n)*?</filesystem>", ""),
)


def rendered_ones() -> list[tuple[str, str, Mapping[str, str]]]:
    """Return each real document, rendered for each flavor that it suits."""
    found = []
    for name in documents.NAMES:
        xml = documents.load(name)
        plain = xml
        for old, new in PLAIN:
            plain = re.sub(old, new, plain)
        for specs in FLAVORS:
            for each in (xml, plain):
                try:
                    rendered = render(each, specs, RT_HOST)
                except engine.Refused:
                    continue
                found.append((name, rendered.xml, specs))
    return found


class RenderTest(unittest.TestCase):
    def test_twice_is_once(self):
        ones = rendered_ones()
        for name, xml, specs in ones:
            with self.subTest(domain=name, specs=specs):
                again = render(xml, specs, RT_HOST)
                self.assertEqual(xml, again.xml)
                self.assertFalse(again.report.changes)
        # A refusal leaves nothing to render again; few may be.
        self.assertGreater(len(ones), 60)
        self.assertIn(
            "desktop", [n for n, _, specs in ones if "bare" in str(specs)]
        )

    def test_what_is_no_concern_of_ours_is_untouched(self):
        for name in documents.NAMES:
            before = etree.fromstring(documents.load(name))
            after = documents.tree(
                render(documents.load(name), documents.LEAN)
            )
            for root in (before, after):
                for tag in ("devices", "features"):
                    for part in root.findall(tag):
                        root.remove(part)
                for ours in root.findall(
                    f"metadata/{{{metadata.NAMESPACE}}}*"
                ):
                    ours.getparent().remove(ours)
                # Where Nova has none we make one.
                for empty in root.findall("metadata"):
                    if not len(empty):
                        root.remove(empty)
            with self.subTest(domain=name):
                self.assertEqual(
                    etree.tostring(before, method="c14n").split(),
                    etree.tostring(after, method="c14n").split(),
                )

    def test_bytes_are_as_good_as_text(self):
        xml = documents.load("nova-realtime")
        self.assertEqual(
            render(xml, documents.LEAN).xml,
            render(xml.encode(), documents.LEAN).xml,
        )

    def test_every_refusal_of_every_hook_is_told(self):
        xml = documents.domain(
            "<disk><target dev='vda' bus='virtio'/></disk>",
            cputune=documents.pins(0, 3),
        )
        specs = {**REALTIME, **documents.BARE}
        with self.assertRaises(engine.Refused) as caught:
            render(xml, specs, RT_HOST)
        codes = documents.codes(caught.exception)
        self.assertIn("disk_on_virtio", codes)
        self.assertIn("vcpus_not_isolated", codes)
        for each in caught.exception.reasons:
            self.assertEqual(each.code, each.to_plain()["code"])

    def test_hooks_of_others(self):
        class Rename:
            def apply(
                self, domain: Domain, context: Context, report: Recorder
            ) -> None:
                domain.root.find("name").text = context.request.guest
                report.changed("set", "name", {}, "it is so wanted")

        hooks = {"strip": Strip(), "rename": Rename()}
        rendered = render(documents.domain(), documents.LEAN, hooks=hooks)
        self.assertEqual("lean", documents.tree(rendered).findtext("name"))
        self.assertIn("rename", rendered.xml)
        self.assertIn("set name", rendered.report.summary())


class SchemaTest(unittest.TestCase):
    @unittest.skipUnless(SCHEMA.exists(), f"libvirt's {SCHEMA} is not here")
    def test_libvirt_takes_what_comes_out(self):
        schema = etree.RelaxNG(etree.parse(SCHEMA))
        for name, xml, specs in rendered_ones():
            root = etree.fromstring(xml)
            if root.get("type") == "lxc":
                # Nova writes one that the schema has for kernels alone.
                root.find("os").remove(root.find("os/cmdline"))
            with self.subTest(domain=name, specs=specs):
                self.assertTrue(schema.validate(root), schema.error_log)


class MetadataTest(unittest.TestCase):
    def _told(self, xml: str) -> etree._Element:
        (found,) = etree.fromstring(xml).iter(f"{{{metadata.NAMESPACE}}}guest")
        return found

    def test_what_was_done(self):
        rendered = render(
            documents.load("nova-dedicated"),
            {**REALTIME, **documents.LEAN},
            RT_HOST,
        )
        told = self._told(rendered.xml)
        self.assertEqual("lean", told.get("class"))
        self.assertEqual("yes", told.get("realtime"))
        self.assertTrue(told.get("version"))
        self.assertEqual("metadata", told.getparent().tag)
        hooks = metadata.read(told)
        self.assertEqual({"strip", "pin", "schedule"}, set(hooks))
        self.assertEqual({"emulatorpin", "iothreadpin"}, hooks["pin"])
        self.assertLessEqual({"video", "vmcoreinfo"}, hooks["strip"])

    def test_what_its_host_was_asked_for(self):
        xml = documents.load("nova-dedicated")
        specs = {**documents.LEAN, "sriov_rt:max_latency_us": "30"}
        rendered = render(xml, specs, RT_HOST)
        self.assertEqual(
            metadata.Promise(False, 30),
            metadata.promised(parse_domain(rendered.xml)),
        )
        # A resize to another flavor takes it back.
        again = render(rendered.xml, documents.LEAN, RT_HOST)
        self.assertIsNone(self._told(again.xml).get("max_latency_us"))
        specs = {**specs, **REALTIME}
        self.assertEqual(
            metadata.Promise(True, 30),
            metadata.promised(parse_domain(render(xml, specs, RT_HOST).xml)),
        )

    def test_novas_own_stays(self):
        rendered = render(documents.load("nova-realtime"), documents.LEAN)
        self.assertIn("<nova:extraSpec name=", rendered.xml)

    def test_what_was_done_before_is_remembered(self):
        once = render(documents.load("nova-dedicated"), documents.LEAN).xml
        twice = render(
            once, {**REALTIME, "sriov_rt:guest": "standard"}, RT_HOST
        ).xml
        told = self._told(twice)
        self.assertEqual("standard", told.get("class"))
        self.assertEqual(
            {"strip", "pin", "schedule"}, set(metadata.read(told))
        )


DEVICES = strategies.lists(
    strategies.sampled_from(
        [
            etree.tostring(device, with_tail=False, encoding="unicode")
            for name in documents.NAMES
            for device in etree.fromstring(documents.load(name)).find(
                "devices"
            )
        ]
    ),
    max_size=24,
)
CLASSES = strategies.frozensets(strategies.sampled_from(DeviceClass))


class PropertiesTest(unittest.TestCase):
    """Any devices, any classes to keep."""

    @hypothesis.settings(deadline=None, max_examples=300)
    @hypothesis.given(
        DEVICES, CLASSES, strategies.sampled_from(["lean", "bare"])
    )
    def test_strip(self, devices, keep, asked):
        specs = {"sriov_rt:guest": asked}
        if keep:
            specs["sriov_rt:keep"] = ",".join(keep)
        wanted = request.parse(specs)
        xml = documents.domain("".join(devices))
        try:
            rendered = engine.render(xml, wanted)
        except engine.Refused as refused:
            self.assertEqual("bare", asked)
            self.assertTrue(all("virtio" in r.code for r in refused.reasons))
            return
        before = etree.fromstring(xml).find("devices")
        after = documents.tree(rendered).find("devices")
        for tag in ("disk", "interface", "filesystem", "serial", "tpm"):
            self.assertEqual(
                len(before.findall(tag)), len(after.findall(tag)), tag
            )
        self.assertEqual(
            len(before.xpath("hostdev[@type='pci']")),
            len(after.xpath("hostdev[@type='pci']")),
        )
        if asked == "bare":
            self.assertFalse(after.xpath("//*[@model='virtio']"))
            self.assertFalse(after.xpath("//*[@bus='virtio']"))
        if "console" in keep and before.xpath("graphics|console|serial"):
            self.assertTrue(after.xpath("graphics|console|serial"))
        if "usb" in keep:
            self.assertEqual(
                len(before.xpath("controller[@type='usb']|hub")),
                len(after.xpath("controller[@type='usb']|hub")),
            )
        # What is on USB has a USB controller to be on, if it ever had one.
        if after.xpath("redirdev|hub|smartcard|hostdev[@type='usb']"):
            self.assertEqual(
                before.xpath("count(controller[@type='usb'])"),
                after.xpath("count(controller[@type='usb'])"),
            )
        again = engine.render(rendered.xml, wanted)
        self.assertEqual(rendered.xml, again.xml)
        self.assertFalse(again.report.changes)

    @hypothesis.settings(deadline=None, max_examples=300)
    @hypothesis.given(
        strategies.text(max_size=200) | strategies.binary(max_size=200)
    )
    def test_no_text_is_a_surprise(self, xml):
        with self.assertRaises(DomainRejected):
            engine.render(xml, request.Request())
