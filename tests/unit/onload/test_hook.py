# SPDX-License-Identifier: Apache-2.0

"""What becomes of an injection when the container is about to start."""

from sriov_rt import request as requests
from sriov_rt.guest import engine
from sriov_rt.guest.domain import parse_domain
from sriov_rt.host.root import Root
from sriov_rt.onload import hook
from tests.unit.onload import elves
from tests.unit.onload import test_injection
from tests.unit.onload.test_injection import ASKS
from tests.unit.onload.test_injection import CONTAINER

_GUEST = "{https://docs.openstack.org/sriov-rt/guest/1.0}guest"

#: What a domain may have that is not ours to take out.
THEIRS = """
    <filesystem type='mount'>
      <source dir='/srv'/>
      <target dir='/srv'/>
    </filesystem>
    <hostdev mode='capabilities' type='net'>
      <source><interface>srt0</interface></source>
    </hostdev>
    <hostdev mode='capabilities' type='misc'>
      <source><char>/dev/rtc0</char></source>
    </hostdev>"""


class StartedTest(test_injection.HookCase):
    def start(self, xml, accelerated=True, specs=ASKS):
        return hook.started(
            xml,
            requests.parse(specs),
            accelerated=accelerated,
            load=lambda: self.settings,
            host=Root(str(self.path)),
        )

    def codes(self, xml, **given):
        with self.assertRaises(engine.Refused) as caught:
            self.start(xml, **given)
        return [each.code for each in caught.exception.reasons]

    def mark(self, xml):
        metadata = parse_domain(xml).part("metadata")
        (found,) = (each for each in metadata if each.tag == _GUEST)
        return found.get("onload")

    def test_a_fitting_image_changes_nothing(self):
        xml = self.render().xml
        self.assertEqual(xml, self.start(xml).xml)
        self.assertIsNone(self.mark(xml))

    def test_what_would_not_be_preloaded_is_refused(self):
        xml = self.render().xml
        for built, code in (
            (elves.MUSL, "onload_musl"),
            (elves.STATIC, "onload_init_static"),
        ):
            self.write("images/c/sbin/init", built.bytes())
            self.assertEqual([code], self.codes(xml))

    def test_an_image_that_is_not_there_is_refused(self):
        xml = self.render().xml.replace("/images/c", "/images/other")
        self.assertEqual(["onload_image_unreadable"], self.codes(xml))

    def test_an_operator_who_takes_the_library_away_is_told(self):
        xml = self.render().xml
        self.settings = test_injection.without_library()
        for accelerated in (True, False):
            self.assertEqual(
                ["onload_unconfigured"],
                self.codes(xml, accelerated=accelerated),
            )

    def test_an_unaccelerated_one_has_nothing_of_it(self):
        before = CONTAINER.format(more="", devices=THEIRS)
        rendered = self.start(self.render(before).xml, accelerated=False)
        domain = parse_domain(rendered.xml)
        expected = parse_domain(before)
        for name in ("os", "devices"):
            self.assertEqual(
                [each.tag for each in expected.part(name)],
                [each.tag for each in domain.part(name)],
            )
        for gone in ("LD_PRELOAD", "EF_", "/opt/sriov-rt", "/dev/onload"):
            self.assertNotIn(gone, rendered.xml)
        for left in ("product_name", "/srv", "srt0", "/dev/rtc0"):
            self.assertIn(left, rendered.xml)

    def test_its_metadata_says_so(self):
        rendered = self.start(self.render().xml, accelerated=False)
        self.assertEqual("unaccelerated", self.mark(rendered.xml))
        self.assertIn("shares its NIC", str(rendered.report.changes[0].why))
        again = self.start(rendered.xml, accelerated=False)
        self.assertEqual(rendered.xml, again.xml)

    def test_it_is_of_any_libc(self):
        xml = self.render().xml
        self.write("images/c/sbin/init", elves.MUSL.bytes())
        self.start(xml, accelerated=False)

    def test_others_are_left_alone(self):
        xml = CONTAINER.format(more="", devices="")
        specs = {"sriov_rt:guest": "lean"}
        for accelerated in (True, False):
            rendered = self.start(xml, accelerated, specs)
            self.assertEqual((), rendered.report.changes)
        machine = xml.replace("type='lxc'", "type='kvm'")
        self.assertEqual(
            (), self.start(machine, accelerated=False).report.changes
        )
