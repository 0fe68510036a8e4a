# SPDX-License-Identifier: Apache-2.0

import dataclasses
import string
import unittest

from sriov_rt import reason
from sriov_rt.facts import CpuSet
from sriov_rt.guest import sentences
from sriov_rt.host.root import Root
from sriov_rt.kubevirt import domain
from sriov_rt.kubevirt.errors import HookRefused
from tests.unit.kubevirt import documents

BY_MASK = {"mask": "1"}


class RenderTest(unittest.TestCase):
    def setUp(self):
        facts = domain.node_facts(Root("/nowhere"))
        self.isolate(facts, CpuSet((2, 3)))

    def isolate(self, facts, cpus):
        self.facts = dataclasses.replace(
            facts,
            cpus=dataclasses.replace(
                facts.cpus, isolated=cpus, nohz_full=cpus
            ),
        )

    def observe(self):
        return self.facts

    def render(self, text=documents.DOMAIN, of_cpu=None, **asked):
        vmi = domain.vmi_of(documents.vmi(of_cpu, **asked))
        return domain.render(text, vmi, self.observe)

    def refusal(self, *args, **asked):
        with self.assertRaises(HookRefused) as caught:
            self.render(*args, **asked)
        return str(caught.exception)

    def test_lean_keeps_the_agents_channel(self):
        xml = self.render(guest="lean").xml
        self.assertIn("org.qemu.guest_agent.0", xml)
        for gone in ("<video", "<graphics", "virtio-non-transitional"):
            self.assertNotIn(gone, xml)

    def test_asked_away_it_goes_with_its_controller(self):
        xml = self.render(guest="lean", guest_agent="off").xml
        self.assertNotIn("<channel", xml)
        self.assertNotIn("virtio-serial", xml)

    def test_rendered_again_it_is_the_same(self):
        xml = self.render(guest="lean").xml
        self.assertEqual(xml, self.render(xml, guest="lean").xml)

    def test_no_scheduler_and_no_pin_is_added(self):
        found = self.render(of_cpu={}, guest="standard")
        self.assertEqual((), found.report.changes)
        vmi = domain.vmi_of(documents.vmi({}, realtime="required"))
        found = domain.render(documents.DOMAIN, vmi, self.observe)
        self.assertEqual((), found.report.changes)
        self.assertNotIn("sched", found.xml)

    def required(self, text=documents.DOMAIN, of_cpu=None):
        vmi = domain.vmi_of(documents.vmi(of_cpu, realtime="required"))
        with self.assertRaises(HookRefused) as caught:
            domain.render(text, vmi, self.observe)
        return str(caught.exception)

    def test_the_domain_of_kubevirts_converter(self):
        self.isolate(self.facts, CpuSet((1, 2, 3)))
        vmi = domain.vmi_of(
            documents.vmi({}, guest="lean", realtime="required")
        )
        found = domain.render(
            documents.CONVERTED.read_text(), vmi, self.observe
        )
        self.assertEqual(
            {"graphics", "memballoon", "video"},
            {each.element for each in found.report.changes},
        )
        self.assertIn("org.qemu.guest_agent.0", found.xml)

    def test_what_is_on_virtio_has_the_names_of_the_vmi(self):
        sentence = self.refusal(
            documents.CONVERTED.read_text(), guest="bare", guest_agent="off"
        )
        self.assertIn("disk vda is on virtio", sentence)
        self.assertIn("NIC ua-default is virtio", sentence)

    def test_kubevirts_own_realtime_is_needed(self):
        self.assertIn("spec.domain.cpu.realtime", self.required())

    def test_vcpus_without_pins(self):
        text = documents.DOMAIN.replace("<vcpupin", "<x").replace("</x", "</")
        self.assertIn("dedicatedCpuPlacement", self.required(text, {}))

    def test_pins_that_the_node_does_not_isolate(self):
        self.isolate(self.facts, CpuSet((2,)))
        sentence = self.required(of_cpu={})
        self.assertIn("vCPUs 1 run on pCPUs 3", sentence)
        self.assertIn("sriov-rt.ready", sentence)

    def test_vcpus_out_of_the_mask_may_be_anywhere(self):
        self.isolate(self.facts, CpuSet((3,)))
        vmi = domain.vmi_of(documents.vmi(BY_MASK, realtime="required"))
        domain.render(documents.DOMAIN, vmi, self.observe)

    def test_an_emulator_thread_among_the_vcpus(self):
        for pin in ("", '<emulatorpin cpuset="1-2"/>'):
            text = documents.DOMAIN.replace('<emulatorpin cpuset="1"/>', pin)
            with self.subTest(pin=pin):
                self.assertIn("isolateEmulatorThread", self.required(text, {}))

    def test_io_threads_among_the_vcpus(self):
        text = documents.DOMAIN.replace(
            "<cputune>",
            '<iothreads>2</iothreads><cputune><iothreadpin iothread="1" '
            'cpuset="1"/>',
        )
        self.assertIn("I/O threads 2 may run on", self.required(text, {}))

    def test_io_threads_among_vcpus_that_are_not_realtime(self):
        """By the mask vCPU 0 is an ordinary one, and may be disturbed."""
        text = documents.DOMAIN.replace(
            "<cputune>",
            '<iothreads>1</iothreads><cputune><iothreadpin iothread="1" '
            'cpuset="2"/>',
        )
        vmi = domain.vmi_of(documents.vmi(BY_MASK, realtime="required"))
        domain.render(text, vmi, self.observe)
        self.assertIn("I/O threads 1", self.required(text, {}))

    def test_unreadable_facts_refuse_who_asks_for_realtime(self):
        self.facts = domain.node_facts(Root("/nowhere"))
        self.assertIn("/sys and /proc", self.required(of_cpu={}))

    def test_half_of_a_document(self):
        for text in ("", "<domain", documents.DOMAIN[:300], "<!DOCTYPE x>"):
            with self.subTest(text=text[:20]):
                self.assertIn(
                    "the domain XML is rejected",
                    self.refusal(text, guest="lean"),
                )


#: Codes of hooks that are not among KubeVirt's: pinning and containers.
_NEVER = frozenset(
    {
        "container_unpinned",
        "no_cpu_for_emulator",
        "pins_differ",
        "pinning_beyond",
        "too_few_in_cpuset",
        "too_few_isolated",
        "vcpusched_beyond",
    }
)


def fields_of(sentence):
    return {
        name for _, name, _, _ in string.Formatter().parse(sentence) if name
    }


class SentencesTest(unittest.TestCase):
    def test_no_word_of_novas_reaches_a_vmi(self):
        for code in sentences.SENTENCES.keys() - _NEVER:
            fields = dict.fromkeys(fields_of(sentences.SENTENCES[code]), "x")
            found = sentences.in_terms_of(
                sentences.KUBEVIRT, sentences.reason(code, **fields)
            )
            with self.subTest(code=code):
                for word in ("Nova", "flavor", "image", "port", "hw:"):
                    self.assertNotRegex(found.message, rf"\b{word}\b")
                self.assertNotIn("sriov_rt:", found.message)
                self.assertIn("; ", found.message)

    def test_remedies_take_the_fields_of_their_reasons(self):
        for code, by_manager in sentences.REMEDIES.items():
            sentence = {**reason.SENTENCES, **sentences.SENTENCES}[code]
            for manager, remedy in by_manager.items():
                with self.subTest(code=code, manager=manager):
                    self.assertLessEqual(
                        fields_of(remedy), fields_of(sentence)
                    )
