# SPDX-License-Identifier: Apache-2.0

"""The same request and domain, through every manager's adapter.

What each manager's own code makes of it is compared as canonical XML, without
metadata. A manager may differ in what it declares: the device classes that it
keeps, which are requested of the others for the comparison.
"""

import json
import shutil
import types
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from unittest import mock

from lxml import etree
from nova.virt.libvirt import driver as nova_driver

from sriov_rt.guest import admission
from sriov_rt.guest import engine
from sriov_rt.host import selected
from sriov_rt.kubevirt import domain as kubevirt_domain
from sriov_rt.kubevirt import vmi as vmis
from sriov_rt.kubevirt.errors import HookRefused
from sriov_rt.libvirt import hook as libvirt_hook
from sriov_rt.nova import containers
from sriov_rt.nova import driver
from sriov_rt.nova import refusals
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.request import guest_request
from sriov_rt.vdsm import hook as vdsm_hook
from tests.functional.guest import corpus
from tests.periodic import periodic
from tests.unit.documented_host import ROOT
from tests.unit.guest import documents
from tests.unit.guest import lab_host

#: Requests as oVirt has them; the host satisfies each.
REQUESTS = (
    "guest=lean",
    "guest=bare",
    "guest=lean & keep=console,rng",
    "guest=lean & keep=console,channel & vcpu_sched=fifo:2",
    "guest=lean & realtime=required & kernel=preempt_rt",
)


def is_for_kubevirt(xml: str, text: str) -> bool:
    """Return whether KubeVirt makes such a domain, and a VMI requests that.

    Of realtime guests virt-launcher pins and virt-handler schedules; an
    annotation checks what they do, and changes nothing. No domain of
    virt-launcher has schedulers.
    """
    specs = guest_request.from_text(text).extra_specs
    return "<vcpusched" not in xml and specs.keys() <= {
        "sriov_rt:guest",
        "sriov_rt:keep",
    }


def canonical(xml: str) -> bytes:
    """Return a domain without metadata and blanks, in canonical form."""
    root = etree.fromstring(xml)
    for each in root.findall("metadata"):
        root.remove(each)
    for element in root.iter():
        if element.tail is not None and not element.tail.strip():
            element.tail = None
        if (
            len(element)
            and element.text is not None
            and not element.text.strip()
        ):
            element.text = None
    return etree.tostring(root, method="c14n")


class Refused(Exception):
    """A manager has refused a domain; its text is what its user sees."""


class ManagersTest(lab_host.LabHostTest):
    """A tuned host without Nova's configuration."""

    def setUp(self):
        super().setUp()
        # The one thing that tree has against realtime.
        shutil.rmtree(self.place / "proc/irq/26")
        self.managers: Mapping[str, Callable[[str, str], str]] = {
            "Nova": self.by_nova,
            "libvirt": self.by_libvirt,
            "oVirt": self.by_vdsm,
            "KubeVirt": self.by_kubevirt,
        }

    def facts(self, text):
        request = guest_request.from_text(text)
        parsed = admission.parse(request, libvirt_hook.MANAGER)
        return selected.for_request(self.root, parsed)

    def by_nova(self, xml: str, text: str) -> str:
        """Nova's libvirt driver has made the domain; ours renders it."""
        specs = dict(guest_request.from_text(text).extra_specs)
        if "sriov_rt:realtime" in specs:
            specs["hw:cpu_policy"] = "dedicated"
        ours = object.__new__(driver.RealtimeLibvirtDriver)
        ours._sriov_rt_host = types.SimpleNamespace(
            facts=lambda: self.facts(text)
        )
        instance = mock.MagicMock(launched_at=None, uuid="u")
        instance.flavor.extra_specs = specs
        with (
            mock.patch.object(
                nova_driver.LibvirtDriver, "_get_guest_xml", return_value=xml
            ),
            mock.patch.object(containers, "pinning", return_value=None),
        ):
            try:
                return ours._get_guest_xml(None, instance, [], {}, None)
            except refusals.REFUSED as error:
                raise Refused(error.format_message()) from None

    def by_libvirt(self, xml: str, text: str) -> str:
        """'guest render' makes it, and the hook has to take that."""
        request = guest_request.from_text(text)
        try:
            made = admission.admit(
                xml,
                request,
                self.facts(text),
                libvirt_hook.MANAGER,
                taken=CpuSet(),
            ).xml
        except engine.Refused as error:
            raise Refused(str(error)) from None
        found = etree.fromstring(made)
        metadata = found.find("metadata")
        element = etree.SubElement(
            metadata,
            "{https://docs.openstack.org/sriov-rt/request/1.0}request",
            {
                key.partition(":")[2]: value
                for key, value in request.extra_specs.items()
            },
        )
        if found.find("uuid") is None:
            # libvirt gives each domain one before it calls a hook.
            etree.SubElement(found, "uuid").text = str(uuid.uuid4())
        for operation, stage in (("prepare", "begin"), ("release", "end")):
            call = libvirt_hook.Call(
                "d", operation, stage, etree.tostring(found)
            )
            done = libvirt_hook.run(call, self.root, lambda call, devices: ())
            self.assertEqual("", done.problem)
        metadata.remove(element)
        return made

    def by_vdsm(self, xml: str, text: str) -> str:
        done = vdsm_hook.run(
            vdsm_hook.START,
            {"sriov_rt": text},
            xml.encode(),
            self.root,
            lambda addresses: None,
            lambda guest, pins: CpuSet(),
        )
        if done.problem:
            raise Refused(done.problem)
        return done.xml

    def by_kubevirt(self, xml: str, text: str, agent: str = "off") -> str:
        """The domain hook makes it of the VMI's annotations.

        :param agent: ``on`` keeps the guest agent's channel.
        """
        given = {
            key.partition(":")[2]: value
            for key, value in guest_request.from_text(text).extra_specs.items()
        }
        annotations = {
            f"{vmis.PREFIX}{name}": value
            for name, value in {**given, vmis.AGENT: agent}.items()
        }
        document = {
            "metadata": {
                "namespace": "lab",
                "name": "rt",
                "uid": "5b8f7d0e-0000-4000-8000-000000000001",
                "annotations": annotations,
            },
            "spec": {"domain": {"devices": {}}},
        }
        try:
            vmi = kubevirt_domain.vmi_of(json.dumps(document))
            made = kubevirt_domain.render(xml, vmi, lambda: self.facts(text))
        except HookRefused as error:
            raise Refused(str(error)) from None
        return made.xml

    def compare(self, name: str, xml: str) -> int:
        """Compare what the managers make of one domain; return how many."""
        count = 0
        for text in REQUESTS:
            made: dict[str, bytes | None] = {}
            said = {}
            for manager, render in self.managers.items():
                if manager == "KubeVirt" and not is_for_kubevirt(xml, text):
                    continue
                try:
                    made[manager] = canonical(render(xml, text))
                except Refused as error:
                    made[manager] = None
                    said[manager] = str(error)
            with self.subTest(domain=name, request=text):
                self.assertEqual(1, len(set(made.values())), said)
            count += None not in made.values()
        return count

    def test_real_domains(self):
        names = [each for each in documents.NAMES if "container" not in each]
        made = sum(
            self.compare(each, self.without_nova(documents.load(each)))
            for each in names
        )
        self.assertGreater(made, len(names))

    def test_kubevirt_declares_the_guest_agents_channel(self):
        names = [each for each in documents.NAMES if "container" not in each]
        for name in names:
            xml = self.without_nova(documents.load(name))
            kept = self.by_libvirt(xml, "guest=lean & keep=channel")
            found = self.by_kubevirt(xml, "guest=lean", agent="on")
            self.assertEqual(canonical(kept), canonical(found))

    def test_the_page_shows_what_each_says_of_the_same_refusal(self):
        page = (ROOT / "doc/source/admin/reasons.rst").read_text()
        xml = documents.domain("<disk><target dev='vda' bus='virtio'/></disk>")
        for manager, render in self.managers.items():
            with self.subTest(manager), self.assertRaises(Refused) as caught:
                render(xml, "guest=bare")
            sentence = str(caught.exception)
            _, _, row = page.partition(f"   * - {manager}\n")
            self.assertIn(sentence, " ".join(row.partition("*")[0].split()))

    def without_nova(self, xml: str) -> str:
        """Return a domain that no manager has made yet."""
        root = etree.fromstring(xml)
        for each in root.findall("metadata"):
            root.remove(each)
        for each in root.findall("cputune"):
            root.remove(each)
        return etree.tostring(root, encoding="unicode")

    @periodic
    def test_libvirts_own_domains(self):
        found = corpus.domains()
        self.assertGreater(len(found), 900)
        made = refused = 0
        for name, data in found.items():
            try:
                xml = etree.tostring(etree.fromstring(data)).decode()
            except etree.XMLSyntaxError:
                xml = data.decode(errors="replace")
            count = self.compare(name, xml)
            made += count
            refused += len(REQUESTS) - count
        print(f"{len(found)} domains, {made} made, {refused} refused by all")
        self.assertGreater(made, 1000)
