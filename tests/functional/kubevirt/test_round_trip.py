# SPDX-License-Identifier: Apache-2.0

"""What hooks return survives the library that KubeVirt reads it with."""

import json
import pathlib
import subprocess
import unittest

from lxml import etree

from sriov_rt import request as requests
from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.kubevirt import domain
from sriov_rt.kubevirt.errors import HookRefused
from tests.functional.guest import corpus
from tests.periodic import periodic
from tests.testbed import paths
from tests.testbed.kubevirt import programs
from tests.testbed.progress import Progress
from tests.unit.kubevirt import documents

ROOT = pathlib.Path(__file__).parents[3]

#: Of each manager's, and of KubeVirt's converter.
DOMAINS = sorted((ROOT / "tests/unit/guest/domains").glob("*.xml")) + sorted(
    (ROOT / "tests/unit/kubevirt/domains").glob("*.xml")
)

#: What an adapter of another manager may be requested to add.
EVERYTHING = requests.parse(
    {
        "sriov_rt:guest": "lean",
        "sriov_rt:vcpu_sched": "fifo:3",
        "sriov_rt:iothread_sched": "rr:2",
        "sriov_rt:emulator_sched": "fifo:1",
    }
)

REQUESTS = (
    {"guest": "lean"},
    {"guest": "lean", "guest_agent": "off"},
    {"guest": "bare", "guest_agent": "off"},
    {"guest": "lean", "keep": "rng,video,graphics"},
)


def passed(texts):
    """Return what libvirtxml makes of documents."""
    places = paths.Paths.from_environment()
    places.make()
    program = programs.ROUNDTRIP.prepare(places.cache, places.log, Progress())
    done = subprocess.run(
        (program,),
        input="\0".join(texts).encode(),
        capture_output=True,
        check=True,
        timeout=600,
    )
    return json.loads(done.stdout)


def canonical(text):
    """Return a document as a value that order and layout do not change."""
    return _canonical(etree.fromstring(text))


def _canonical(element):
    children = sorted(map(_canonical, element.iterchildren("*")))
    text = (element.text or "").strip()
    return (element.tag, tuple(sorted(element.items())), text, tuple(children))


def no_facts():
    raise AssertionError("no request here needs any")


class RoundTripTest(unittest.TestCase):
    def check(self, texts, render):
        """Compare what is rendered with what KubeVirt would define.

        What libvirtxml does not know is lost in KubeVirt before a hook is
        called, so that it writes each document before. Of prefixes that are
        declared on ``<domain>``, as oVirt's, it loses the declaration: what it
        writes is no XML then, and is refused.
        """
        known = [each["xml"] for each in passed(texts) if "xml" in each]
        given = []
        for text in known:
            for asked in REQUESTS:
                vmi = domain.vmi_of(documents.vmi(**asked))
                try:
                    given.append(render(text, vmi).xml)
                except (HookRefused, engine.Refused, DomainRejected):
                    continue
        self.assertGreater(len(given), 2 * len(known))
        for text, after in zip(given, passed(given), strict=True):
            if canonical(text) != canonical(after.get("xml", "<lost/>")):
                self.fail(f"{after} was {text}")
            mark = f"{{{metadata.NAMESPACE}}}guest"
            self.assertIsNotNone(
                etree.fromstring(after["xml"]).find(f".//{mark}")
            )

    def test_what_the_domain_hook_returns(self):
        texts = [each.read_text() for each in DOMAINS]
        self.check(texts, lambda text, vmi: domain.render(text, vmi, no_facts))

    def test_what_every_hook_of_the_project_adds(self):
        """Schedulers and pins, too, which this adapter does without."""
        texts = [each.read_text() for each in DOMAINS]
        self.check(texts, lambda text, vmi: engine.render(text, EVERYTHING))

    @periodic
    def test_libvirts_own_domains(self):
        texts = [
            data.decode(errors="replace")
            for data in corpus.domains().values()
            if b"\0" not in data
        ]
        self.check(texts, lambda text, vmi: domain.render(text, vmi, no_facts))
