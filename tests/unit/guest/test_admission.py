# SPDX-License-Identifier: Apache-2.0

"""What every manager's adapter calls."""

import dataclasses
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.guest import admission
from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest import sentences
from sriov_rt.guest.domain import parse_domain
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.request import guest_request
from sriov_rt.request.words import DeviceClass
from tests.unit import builders
from tests.unit.guest import documents

RT_HOST = builders.realtime_host()
MANAGER = admission.Manager("virt")
NOW = RT_HOST.observed_at

#: A host without facts of Nova's: its isolated CPUs are for every guest.
LAB_HOST = dataclasses.replace(
    RT_HOST,
    compute=dataclasses.replace(RT_HOST.compute, dedicated=None, shared=None),
)
OLD_KERNEL = dataclasses.replace(
    LAB_HOST, kernel=dataclasses.replace(LAB_HOST.kernel, preempt_rt=False)
)
CPUS = sorted(LAB_HOST.cpus.isolated & LAB_HOST.cpus.nohz_full)


def admit(xml, text, facts=LAB_HOST, manager=MANAGER, **more):
    """Return what becomes of a domain with a request."""
    request = guest_request.from_text(text)
    more.setdefault("taken", CpuSet())
    return admission.admit(xml, request, facts, manager, now=NOW, **more)


class AdmitTest(unittest.TestCase):
    def refused(self, *args, **more):
        with self.assertRaises(engine.Refused) as raised:
            admit(*args, **more)
        return raised.exception.reasons

    def test_the_domain_is_what_the_engine_makes_of_it(self):
        xml = documents.domain('<video/><channel type="unix"/>')
        done = admit(xml, "guest=lean & realtime=required")
        self.assertEqual(
            {"vcpupin", "emulatorpin", "vcpusched"},
            set(documents.cputune(done)),
        )
        self.assertEqual(
            ["memballoon=none", "controller:usb=none"],
            documents.devices(done),
        )

    def test_what_a_manager_declares_stays(self):
        manager = dataclasses.replace(
            MANAGER, keeps=frozenset({DeviceClass.CHANNEL})
        )
        xml = documents.domain('<channel type="unix"/>')
        done = admit(xml, "guest=lean", manager=manager)
        self.assertIn("channel", documents.devices(done))

    def test_the_host_is_judged_without_nova(self):
        host = OLD_KERNEL
        (found,) = self.refused(
            documents.domain(), "kernel=preempt_rt", facts=host
        )
        self.assertEqual("kernel_not_rt", found.code)

    def test_a_host_that_its_adapter_does_not_see_is_not(self):
        host = OLD_KERNEL
        manager = dataclasses.replace(MANAGER, judges_host=False)
        admit(
            documents.domain(),
            "kernel=preempt_rt",
            facts=host,
            manager=manager,
        )

    def test_a_sentence_in_the_terms_of_the_manager(self):
        manager = dataclasses.replace(MANAGER, name=sentences.KUBEVIRT)
        xml = documents.domain(
            '<disk type="file"><target dev="vda" bus="virtio"/></disk>'
        )
        (found,) = self.refused(xml, "guest=bare", manager=manager)
        self.assertEqual(
            "disk vda is on virtio and guest=bare allows no virtio; set the "
            "disk's bus to sata",
            found.message,
        )
        self.assertEqual("set the disk's bus to sata", found.remedy)

    def test_every_fault_of_input_is_a_reason(self):
        for xml, text, code in (
            ("<domain>", "guest=lean", "domain_rejected"),
            ("", "guest=lean", "domain_rejected"),
            (b"\xff", "guest=lean", "domain_rejected"),
            ("<network/>", "guest=lean", "domain_rejected"),
            (documents.domain(), "guest=fat", "request_invalid"),
            (documents.domain(), "pinning=0#x", "request_invalid"),
            (
                documents.domain(vcpus="x"),
                "realtime=required",
                "domain_rejected",
            ),
        ):
            with self.subTest(text=text, xml=xml[:20]):
                (found,) = self.refused(xml, text)
                self.assertEqual(code, found.code)

    @hypothesis.given(strategies.binary(), strategies.text())
    def test_no_bytes_raise_anything_else(self, xml, value):
        request = guest_request.GuestRequest({"sriov_rt:guest": value}, value)
        with self.assertRaises(engine.Refused):
            admission.admit(xml, request, None, MANAGER, taken=CpuSet())


class TakenTest(unittest.TestCase):
    """pCPUs that another guest has."""

    def test_others_are_chosen(self):
        xml = documents.domain(vcpus=1)
        done = admit(xml, "realtime=required", taken=CpuSet(CPUS[:1]))
        (pin,) = documents.cputune(done)["vcpupin"]
        self.assertEqual(str(CPUS[1]), pin["cpuset"])

    def test_a_pin_on_one_of_them_is_refused(self):
        xml = documents.domain(vcpus=1, cputune=documents.pins(CPUS[0]))
        with self.assertRaises(engine.Refused) as raised:
            admit(xml, "realtime=required", taken=CpuSet(CPUS[:1]))
        (found,) = raised.exception.reasons
        self.assertEqual("pcpus_taken", found.code)


class RequestedTest(unittest.TestCase):
    """The element by which a domain's owner requests."""

    def requested(self, element):
        more = (
            '<metadata xmlns:rt="https://docs.openstack.org/sriov-rt/'
            f'request/1.0">{element}</metadata>'
        )
        return metadata.requested(parse_domain(documents.domain(more=more)))

    def test_its_attributes_are_extra_specs(self):
        found = self.requested('<rt:request guest="lean" pinning="0#6"/>')
        self.assertEqual({"sriov_rt:guest": "lean"}, found.extra_specs)
        self.assertEqual("0#6", found.pinning)

    def test_without_one_nothing_is_requested(self):
        self.assertIsNone(self.requested("<request/>"))

    def test_it_stays_when_the_record_is_written(self):
        more = (
            '<metadata><request xmlns="https://docs.openstack.org/sriov-rt/'
            'request/1.0" guest="lean"/></metadata>'
        )
        done = admit(documents.domain(more=more), "guest=lean")
        found = metadata.requested(parse_domain(done.xml))
        self.assertEqual({"sriov_rt:guest": "lean"}, found.extra_specs)
