# SPDX-License-Identifier: Apache-2.0

"""Documents made to hurt are refused in bounded time and memory."""

import subprocess
import sys
import unittest

from sriov_rt.guest.domain import MAX_DOCUMENT
from tests.periodic import slow
from tests.unit.guest import documents

#: Runs in a process of its own, which may use 30 s of CPU and 400 MB.
_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
from sriov_rt.guest import engine
from sriov_rt.guest.xml import DomainRejected
from sriov_rt import request
specs = {"sriov_rt:guest": "bare", "sriov_rt:realtime": "required"}
wanted = request.parse(specs)
try:
    engine.render(sys.stdin.buffer.read(), wanted)
except DomainRejected as error:
    print("rejected", error.problem)
except engine.Refused as error:
    print("refused", len(str(error)) < 4096)
else:
    print("rendered")
"""


def attempt(xml: bytes) -> str:
    """Return what becomes of a document, in a process with limits."""
    done = subprocess.run(
        (sys.executable, "-c", _LIMITED),
        input=xml,
        capture_output=True,
        timeout=60,
    )
    if done.returncode:
        raise AssertionError(done.stderr.decode()[-2000:])
    return done.stdout.decode()


@slow
class HostileTest(unittest.TestCase):
    """Each of these is read in a process that may use little."""

    def test_a_bomb_of_entities(self):
        entities = "".join(
            f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)
        )
        xml = (
            f'<!DOCTYPE domain [<!ENTITY a0 "ha">{entities}]>'
            "<domain><name>&a11;</name></domain>"
        )
        self.assertIn("DOCTYPE", attempt(xml.encode()))

    def test_an_external_entity(self):
        xml = (
            '<!DOCTYPE domain [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
            "<domain><name>&a;</name></domain>"
        )
        self.assertIn("DOCTYPE", attempt(xml.encode()))

    def test_a_hundred_thousand_nested_elements(self):
        for tag in ("a", "devices"):
            xml = (
                f"<domain>{f'<{tag}>' * 100_000}{f'</{tag}>' * 100_000}"
                "</domain>"
            )
            told = attempt(xml[:MAX_DOCUMENT].encode())
            self.assertIn("rejected not XML", told)

    def test_fifty_megabytes(self):
        xml = b"<domain>" + b"<a/>" * (50 << 18) + b"</domain>"
        self.assertIn("rejected longer", attempt(xml))

    def test_as_many_attributes_as_fit(self):
        xml = "<domain " + " ".join(f"a{n}=''" for n in range(90_000)) + "/>"
        self.assertTrue(attempt(xml.encode()))

    def test_as_many_devices_as_fit(self):
        for device in (
            "<crypto model='virtio'/>",
            "<console><target type='virtio'/></console>",
            "<disk><target bus='scsi'/></disk>",
            "<controller type='usb'/>",
        ):
            with self.subTest(device=device):
                many = device * ((MAX_DOCUMENT - 400) // len(device))
                told = attempt(documents.domain(many).encode())
                self.assertIn(told, ("rendered\n", "refused True\n"))

    def test_as_many_cpus_as_fit(self):
        for element in (
            '<vcpupin vcpu="{0}" cpuset="{0}-8191"/>',
            '<vcpusched vcpus="{0}-8191" scheduler="fifo" priority="1"/>',
            '<iothreadpin iothread="{0}" cpuset="{0}-8191"/>',
        ):
            with self.subTest(element=element):
                many = "".join(element.format(n) for n in range(4096))
                if "vcpupin" not in element:
                    many += '<vcpupin vcpu="0" cpuset="1"/>'
                xml = documents.domain(vcpus=4096, cputune=many)
                self.assertIn("rejected cpusets", attempt(xml.encode()))

    def test_a_cpuset_as_long_as_fits(self):
        text = "0-8191,^0-8191," * (MAX_DOCUMENT // 20)
        xml = documents.domain(cputune=f'<vcpupin vcpu="0" cpuset="{text}"/>')
        self.assertIn("rejected", attempt(xml.encode()))
