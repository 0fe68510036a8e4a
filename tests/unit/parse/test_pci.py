# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.parse import pci
from tests.unit.parse import properties

_addresses = st.builds(
    pci.PciAddress,
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.integers(0, 31),
    st.integers(0, 7),
)
_word = st.integers(0, 2**16 - 1)
_ids = st.builds(pci.PciId, _word, st.one_of(st.none(), _word))
_pciish = st.text("0123456789abcdefABCg:.x \n", max_size=20)


class PciAddressTest(properties.ParserTestCase):
    def test_parses_full_and_short_addresses(self):
        expected = pci.PciAddress(0, 0x41, 0x10, 3)
        for text in "0000:41:10.3", "41:10.3", "00000000:41:10.3":
            with self.subTest(text):
                self.assertEqual(expected, pci.PciAddress.parse(text))

    def test_takes_the_domains_of_vmd(self):
        address = pci.PciAddress.parse("10000:E1:1f.7")
        self.assertEqual(pci.PciAddress(0x10000, 0xE1, 0x1F, 7), address)
        self.assertEqual("10000:e1:1f.7", str(address))

    def test_refuses_what_is_out_of_the_bus_bounds(self):
        for text in "0000:41:20.0", "0000:41:10.8", "0000:141:10.0":
            with self.subTest(text):
                self.refusal(pci.PciAddress.parse, text)

    def test_refuses_what_is_no_address(self):
        for text in (
            *("", "41:10", "41:10.", "0000:41:10.3\n", " 41:10.3", "41.10.3"),
            *("0:41:10.3", "000000000:41:10.3", "g0:10.3", "٤1:10.3"),
            *("4_1:10.3", "0000-41-10.3", "0000:41:10.33"),
        ):
            with self.subTest(text):
                self.refusal(pci.PciAddress.parse, text)

    def test_sorts_as_lspci_lists(self):
        texts = [
            "0000:01:00.0",
            "0000:01:00.1",
            "0000:0a:00.0",
            "0001:00:00.0",
        ]
        addresses = [pci.PciAddress.parse(each) for each in reversed(texts)]
        self.assertEqual(texts, [str(each) for each in sorted(addresses)])

    @properties.deterministic
    @given(_addresses)
    def test_reads_back_what_it_prints(self, address):
        self.assertEqual(address, pci.PciAddress.parse(str(address)))
        self.assertEqual(address, pci.PciAddress.parse(str(address).upper()))

    @properties.deterministic
    @given(st.one_of(st.text(), _pciish))
    def test_is_total(self, text):
        self.outcome(pci.PciAddress.parse, text)


class PciIdTest(properties.ParserTestCase):
    def test_parses_a_vendor_and_a_product(self):
        self.assertEqual(pci.PciId(0x8086), pci.PciId.parse("8086"))
        self.assertEqual(
            pci.PciId(0x8086, 0x10CA), pci.PciId.parse("8086:10CA")
        )
        self.assertEqual("8086:10ca", str(pci.PciId.parse("8086:10CA")))
        self.assertEqual(pci.PciId(0x8086, 0), pci.PciId.parse("8086:0000"))

    def test_refuses_what_is_no_id(self):
        for text in (
            *("", "808", "80866", "8086:", ":10ca", "8086:10c", "0x8086"),
            *("8086:10ca:1", "8086:10ca\n", "808g", "٨٠٨٦", "80_6"),
        ):
            with self.subTest(text):
                self.refusal(pci.PciId.parse, text)

    @properties.deterministic
    @given(_ids)
    def test_reads_back_what_it_prints(self, each):
        self.assertEqual(each, pci.PciId.parse(str(each)))
        self.assertEqual(each, pci.PciId.parse(str(each).upper()))

    @properties.deterministic
    @given(st.one_of(st.text(), _pciish))
    def test_is_total(self, text):
        self.outcome(pci.PciId.parse, text)
