# SPDX-License-Identifier: Apache-2.0

"""Documents are read with suspicion, in bounded time and memory."""

import unittest

from sriov_rt.guest.domain import MAX_DOCUMENT
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.xml import DomainRejected


class RejectedTest(unittest.TestCase):
    def _assert_rejected(self, problem: str, xml: str | bytes) -> None:
        with self.assertRaises(DomainRejected) as caught:
            parse_domain(xml)
        self.assertIn(problem, caught.exception.problem)
        self.assertIn("give the document", str(caught.exception))

    def test_doctype(self):
        self._assert_rejected("DOCTYPE", "<!DOCTYPE domain><domain/>")
        self._assert_rejected(
            "DOCTYPE",
            "<!-- first --><!DOCTYPE domain [<!ENTITY a 'b'>]>"
            "<domain>&a;</domain>",
        )

    def test_a_doctype_out_of_place(self):
        for xml in (
            "<domain/><!DOCTYPE domain [<!ENTITY a 'b'>]>",
            "<domain><!DOCTYPE domain [<!ENTITY a 'b'>]>&a;</domain>",
        ):
            self._assert_rejected("DOCTYPE", xml)

    def test_entities_without_a_doctype(self):
        self._assert_rejected(
            "not XML", "<domain><name>&evil;</name></domain>"
        )

    def test_other_encodings(self):
        text = "<domain/>"
        for encoding in ("utf-16", "utf-16-le", "utf-32", "cp037"):
            with (
                self.subTest(encoding=encoding),
                self.assertRaises(DomainRejected),
            ):
                parse_domain(text.encode(encoding))

    def test_declared_encodings(self):
        for encoding in ("utf-16", "latin-1", "UTF-7", "EBCDIC-CP-US", ""):
            self._assert_rejected(
                "encoding",
                f"<?xml version='1.0' encoding='{encoding}'?><domain/>",
            )

    def test_utf_8_may_be_declared(self):
        for text in ("utf-8", "UTF-8", "us-ascii"):
            xml = f'<?xml version="1.0" encoding="{text}"?><domain/>'
            self.assertEqual("domain", parse_domain(xml).root.tag)
            self.assertEqual("domain", parse_domain(xml.encode()).root.tag)

    def test_no_utf_8(self):
        self._assert_rejected("UTF-8", b"<domain>\xff</domain>")
        self._assert_rejected("UTF-8", "<domain>\ud800</domain>")

    def test_nul(self):
        self._assert_rejected("NUL", b"<domain>\0</domain>")

    def test_no_xml(self):
        for text in ("", " ", "domain", "<domain>", "<a/><b/>", "<<", "]]>"):
            with self.subTest(text=text):
                self._assert_rejected("not XML", text)

    def test_no_domain(self):
        self._assert_rejected("root", "<network/>")
        self._assert_rejected("root", '<domain xmlns="urn:other"/>')

    def test_parts_twice(self):
        # libvirt reads the devices of both.
        for tag in ("devices", "cputune", "metadata", "vcpu", "features"):
            self._assert_rejected(
                f"second <{tag}>", f"<domain><{tag}/><{tag}/></domain>"
            )

    def test_too_long(self):
        room = MAX_DOCUMENT - len("<domain></domain>")
        parse_domain("<domain>" + " " * room + "</domain>")
        self._assert_rejected(
            "longer", "<domain>" + " " * (room + 1) + "</domain>"
        )
        # As many characters, and more bytes.
        self._assert_rejected(
            "longer", "<domain>" + "é" * (room - 1) + "</domain>"
        )


class NumbersTest(unittest.TestCase):
    def test_vcpus(self):
        self.assertEqual(
            {0, 1, 2},
            parse_domain("<domain><vcpu> 3\n</vcpu></domain>").vcpus,
        )
        self.assertEqual({0}, parse_domain("<domain/>").vcpus)
        for text in ("", "0", "-1", "x", "4097", "9" * 5000):
            with self.subTest(text=text):
                found = parse_domain(f"<domain><vcpu>{text}</vcpu></domain>")
                with self.assertRaises(DomainRejected):
                    found.vcpus  # noqa: B018

    def test_text_as_libvirt_reads_it(self):
        # Seen with libvirt 9.0, which defines a guest of 24 vCPUs.
        for text, count in (
            ("2<!-- c -->4", 24),
            ("<!-- c -->4", 4),
            ("2<?a b?>1", 21),
            ("<![CDATA[3]]>", 3),
        ):
            with self.subTest(text=text):
                found = parse_domain(
                    f"<domain><vcpu>{text}</vcpu>"
                    f"<iothreads>{text}</iothreads></domain>"
                )
                self.assertEqual(count, len(found.vcpus))
                self.assertEqual(count, len(found.iothreads))

    def test_iothreads(self):
        for more, ids in (
            ("", ()),
            ("<iothreads>0</iothreads>", ()),
            ("<iothreads>3</iothreads>", (1, 2, 3)),
            ("<iothreadids><iothread id='7'/></iothreadids>", (7,)),
            (
                "<iothreads>4</iothreads><iothreadids><iothread id='2'/>"
                "<iothread id='9'/></iothreadids>",
                (2, 9, 1, 3),
            ),
        ):
            with self.subTest(more=more):
                found = parse_domain(f"<domain>{more}</domain>")
                self.assertEqual(ids, found.iothreads)
        for more in (
            "<iothreads>1025</iothreads>",
            "<iothreadids><iothread id='0'/></iothreadids>",
            "<iothreadids>" + "<iothread id='1'/>" * 1025 + "</iothreadids>",
        ):
            with self.subTest(more=more[:80]):
                found = parse_domain(f"<domain>{more}</domain>")
                with self.assertRaises(DomainRejected):
                    found.iothreads  # noqa: B018

    def test_an_added_tune_is_there_once(self):
        for cputune in ("", "<cputune/>", "<cputune><shares/></cputune>"):
            found = parse_domain(f"<domain>{cputune}</domain>")
            found.add_tune("vcpupin", {"vcpu": "0", "cpuset": "5"})
            self.assertEqual({0: {5}}, found.pins)
            found.add_tune("vcpupin", {"vcpu": "1", "cpuset": "6"})
            self.assertEqual({0: {5}, 1: {6}}, found.pins)
            self.assertEqual(2, len(found.tunes("vcpupin")))

    def test_pins_twice(self):
        pin = '<vcpupin vcpu="0" cpuset="1"/>'
        found = parse_domain(f"<domain><cputune>{pin}{pin}</cputune></domain>")
        with self.assertRaises(DomainRejected):
            found.pins  # noqa: B018
