# SPDX-License-Identifier: Apache-2.0

"""What is injected comes from the operator, and changes nothing else."""

import dataclasses
import json
import pathlib
import tempfile
import unittest

from sriov_rt import request as requests
from sriov_rt.guest import engine
from sriov_rt.guest.domain import parse_domain
from sriov_rt.host.root import Root
from sriov_rt.nova import vendordata
from sriov_rt.onload import lxc
from sriov_rt.onload import plan
from sriov_rt.onload.errors import NotConfigured
from sriov_rt.onload.errors import OptionRejected
from sriov_rt.onload.hook import Onload
from sriov_rt.onload.settings import Settings
from tests.unit.onload import elves

SETTINGS = Settings(
    profile_directories=("/etc/onload",),
    profiles=frozenset({"latency", "bad"}),
    library="/opt/onload/lib/libonload.so",
    devices=("/dev/onload", "/dev/sfc_char"),
)

CONTAINER = """<domain type='lxc'>
  <name>c</name>
  <os>
    <type>exe</type>
    <init>/sbin/init</init>
    <initenv name='product_name'>OpenStack Nova</initenv>{more}
  </os>
  <devices>
    <filesystem type='mount'>
      <source dir='/images/c'/>
      <target dir='/'/>
    </filesystem>{devices}
  </devices>
</domain>"""

ASKS = {"sriov_rt:onload": "required", "sriov_rt:onload_profile": "latency"}


def without_library() -> Settings:
    """Return settings of an operator who names no library."""
    return dataclasses.replace(SETTINGS, library=None)


class HookCase(unittest.TestCase):
    """A host with profiles and a library, and an image."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)
        self.settings = SETTINGS
        self.write("etc/onload/latency.opf", b"onload_set EF_POLL_USEC 9\n")
        self.write("etc/onload/bad.opf", b"eval x\n")
        self.write("opt/onload/lib/libonload.so", elves.LIBRARY.bytes())
        self.write("dev/onload", b"")
        self.write("dev/sfc_char", b"")
        self.write("images/c/sbin/init", elves.INIT.bytes())
        self.write("images/c/lib64/libc.so.6", elves.LIBC.bytes())

    def write(self, name, data):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def render(self, xml=None, specs=ASKS, more="", devices=""):
        if xml is None:
            xml = CONTAINER.format(more=more, devices=devices)
        hook = Onload(lambda: self.settings, Root(str(self.path)))
        return engine.render(
            xml, requests.parse(specs), hooks={"onload": hook}
        )


class HookTest(HookCase):
    def refused(self, **given):
        with self.assertRaises(engine.Refused) as caught:
            self.render(**given)
        return [each.code for each in caught.exception.reasons]

    def test_what_a_container_gets(self):
        domain = parse_domain(self.render().xml)
        environment = {
            each.get("name"): each.text
            for each in domain.part("os").findall("initenv")
        }
        self.assertEqual(
            {
                "product_name": "OpenStack Nova",
                "LD_PRELOAD": "/opt/sriov-rt/onload/libonload.so",
                "EF_POLL_USEC": "9",
            },
            environment,
        )
        _, mount, *nodes = domain.devices()
        self.assertEqual("mount", mount.get("type"))
        self.assertEqual("/opt/onload/lib", mount.find("source").get("dir"))
        self.assertEqual(
            "/opt/sriov-rt/onload", mount.find("target").get("dir")
        )
        self.assertIsNotNone(mount.find("readonly"))
        self.assertEqual(
            ["/dev/onload", "/dev/sfc_char"],
            [each.findtext("source/char") for each in nodes],
        )
        self.assertEqual(
            {"capabilities"}, {each.get("mode") for each in nodes}
        )

    def test_rendering_again_changes_nothing(self):
        once = self.render()
        again = self.render(once.xml)
        self.assertEqual(once.xml, again.xml)
        self.assertEqual((), again.report.changes)
        self.assertEqual(
            ["initenv", "initenv", "filesystem", "hostdev", "hostdev"],
            [each.element for each in once.report.changes],
        )

    def test_nothing_without_being_asked(self):
        for specs in ({}, {"sriov_rt:onload": "off"}):
            rendered = self.render(specs=specs)
            self.assertEqual((), rendered.report.changes)
            self.assertNotIn("LD_PRELOAD", rendered.xml)

    def test_nobody_else_sets_onloads_variables(self):
        rendered = self.render(
            more="<initenv name='LD_PRELOAD'>/tmp/evil.so</initenv>"
            "<initenv name='EF_POLL_USEC'>0</initenv>"
            "<initenv name='EF_LD_PRELOAD'>/tmp/evil.so</initenv>"
        )
        self.assertNotIn("evil", rendered.xml)
        self.assertEqual(1, rendered.xml.count("EF_POLL_USEC"))
        self.assertEqual(
            3,
            sum(each.action == "removed" for each in rendered.report.changes),
        )

    def test_nothing_hides_behind_a_comment(self):
        # libvirt reads "/opt/…/libonload.so:/tmp/evil.so".
        rendered = self.render(
            more="<initenv name='LD_PRELOAD'>/opt/sriov-rt/onload/libonload.so"
            "<!-- c -->:/tmp/evil.so</initenv>"
        )
        self.assertNotIn("evil", rendered.xml)

    def test_a_virtual_machine_is_left_alone_and_told_of(self):
        rendered = self.render("<domain type='kvm'/>")
        self.assertEqual((), rendered.report.changes)
        (note,) = rendered.report.notes
        self.assertIn("vendordata", note.message)

    def test_refusals(self):
        bad = {**ASKS, "sriov_rt:onload_profile": "bad"}
        self.assertEqual(["onload_refused"], self.refused(specs=bad))
        other = {**ASKS, "sriov_rt:onload_profile": "other"}
        self.assertEqual(["onload_refused"], self.refused(specs=other))
        (self.path / "dev/sfc_char").unlink()
        self.assertEqual(["onload_device_missing"], self.refused())
        self.write("dev/sfc_char", b"")
        self.write("images/c/sbin/init", elves.STATIC.bytes())
        self.assertEqual(["onload_init_static"], self.refused())
        self.settings = dataclasses.replace(SETTINGS, library=None)
        self.assertEqual(["onload_unconfigured"], self.refused())

    def test_a_configuration_that_is_wrong_is_a_reason(self):
        def load():
            raise OptionRejected("library", "x", "an absolute path expected")

        with self.assertRaises(engine.Refused) as caught:
            engine.render(
                CONTAINER.format(more="", devices=""),
                requests.parse(ASKS),
                hooks={"onload": Onload(load, Root(str(self.path)))},
            )
        self.assertIn("[onload] library", str(caught.exception))

    def test_another_mount_in_the_librarys_place(self):
        taken = (
            "<filesystem type='mount'><source dir='/home/evil'/>"
            "<target dir='/opt/sriov-rt/onload'/></filesystem>"
        )
        self.assertEqual(["onload_mount_taken"], self.refused(devices=taken))

    def test_an_image_that_is_no_directory(self):
        xml = CONTAINER.format(more="", devices="")
        for source in ("<source file='/c.img'/>", "<source dir='c'/>", ""):
            changed = xml.replace("<source dir='/images/c'/>", source)
            notes = [
                each.message for each in self.render(changed).report.notes
            ]
            self.assertIn("it has no directory", notes[0])

    def test_what_else_a_container_has_stays(self):
        devices = (
            "<interface type='network'/>"
            "<filesystem type='mount'><source dir='/a'/></filesystem>"
            "<hostdev mode='capabilities' type='misc'><source>"
            "<char>/dev/onload</char></source></hostdev>"
        )
        rendered = self.render(devices=devices)
        self.assertEqual(1, rendered.xml.count("/dev/onload<"))
        self.assertIn("<source dir='/a'/>".replace("'", '"'), rendered.xml)

    def test_the_profile_is_read_anew_and_the_settings_once(self):
        loaded = []
        hook = Onload(
            lambda: loaded.append(1) or self.settings, Root(str(self.path))
        )
        for value in ("1", "2"):
            line = f"onload_set EF_POLL_USEC {value}\n"
            self.write("etc/onload/latency.opf", line.encode())
            rendered = engine.render(
                CONTAINER.format(more="", devices=""),
                requests.parse(ASKS),
                hooks={"onload": hook},
            )
            self.assertIn(f">{value}</initenv>", rendered.xml)
        self.assertEqual([1], loaded)

    def test_an_image_that_is_not_mounted_yet(self):
        for name in ("sbin/init", "lib64/libc.so.6"):
            (self.path / "images/c" / name).unlink()
        for name in ("sbin", "lib64"):
            (self.path / "images/c" / name).rmdir()
        notes = [each.message for each in self.render().report.notes]
        self.assertIn("not checked: /images/c is empty yet", notes[0])


class PlanTest(unittest.TestCase):
    def test_json(self):
        plain = plan.container(SETTINGS, None).to_plain()
        self.assertEqual(
            {"LD_PRELOAD": "/opt/sriov-rt/onload/libonload.so"},
            plain["environment"],
        )
        self.assertIsNone(plain["profile"])

    def test_without_a_library(self):
        with self.assertRaises(NotConfigured):
            plan.container(Settings(), None)


class LxcTest(unittest.TestCase):
    def lines(self, cgroup=2):
        injection = dataclasses.replace(
            plan.container(SETTINGS, None), profile=("latency", "ab12")
        )
        nodes = [lxc.Node("/dev/onload", 10, 57)]
        return list(lxc.lines(injection, nodes, cgroup))

    def test_the_lines(self):
        self.assertEqual(
            [
                "# Onload, profile latency, sha256 ab12",
                "lxc.environment = "
                "LD_PRELOAD=/opt/sriov-rt/onload/libonload.so",
                "lxc.mount.entry = /opt/onload/lib opt/sriov-rt/onload none "
                "bind,ro,create=dir 0 0",
                "lxc.cgroup2.devices.allow = c 10:57 rw",
                "lxc.mount.entry = /dev/onload dev/onload none "
                "bind,create=file 0 0",
                "lxc.hook.pre-start = sriov-rt onload lxc-hook",
            ],
            self.lines(),
        )
        self.assertIn(
            "lxc.cgroup.devices.allow = c 10:57 rw", self.lines(cgroup=1)
        )

    def test_names(self):
        self.assertEqual("c-1.x", lxc.check_name("c-1.x"))
        for name in ("", "..", "../x", "/x", "a b", "a\n", "-x", "x" * 200):
            with (
                self.subTest(name=name),
                self.assertRaises(lxc.ContainerNameRejected),
            ):
                lxc.check_name(name)


class VendordataTest(unittest.TestCase):
    def test_what_cloud_init_gets(self):
        text = vendordata.cloud_config(
            {"LD_PRELOAD": "libonload.so", "EF_TCP": "1"}, ("latency", "ab12")
        )
        head, _, rest = text.partition("\n")
        self.assertEqual("#cloud-config", head)
        (file,) = json.loads(rest)["write_files"]
        self.assertEqual("/etc/sriov-rt/onload.env", file["path"])
        self.assertEqual(
            "# Onload, by sriov-rt: profile latency, sha256 ab12\n"
            "LD_PRELOAD=libonload.so\nEF_TCP=1\n",
            file["content"],
        )
