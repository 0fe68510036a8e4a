# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.parse import cpulist
from sriov_rt.parse import pinning
from tests.unit.parse import properties

_pins = st.dictionaries(
    st.integers(0, pinning.MAX_VCPUS - 1),
    st.frozensets(st.integers(0, cpulist.MAX_CPUS - 1), min_size=1),
    min_size=1,
)


class PinningTest(properties.ParserTestCase):
    def check(self, expected, text):
        with self.subTest(text):
            pins = tuple((v, frozenset(p)) for v, p in expected)
            self.assertEqual(pins, pinning.parse_pinning(text))

    def refused(self, text, position):
        with self.subTest(text):
            error = self.refusal(pinning.parse_pinning, text)
            self.assertEqual(position, error.position)
            self.assertEqual("pinning", error.what)

    def test_one_pcpu_a_vcpu(self):
        self.check([(0, {6}), (1, {7}), (2, {8}), (3, {9})], "0#6_1#7_2#8_3#9")

    def test_ranges_and_exclusions(self):
        self.check([(1, {1, 3, 4})], "1#1-4,^2")
        self.check([(0, {6, 7, 9})], "0#6-7,9,^8")

    def test_keeps_the_order_of_the_text(self):
        self.check([(3, {1}), (0, {2})], "3#1_0#2")

    def test_refuses_a_vcpu_that_is_pinned_twice(self):
        self.refused("0#6_1#7_0#8", 8)
        self.refused("0#6_00#6", 4)

    def test_refuses_a_vcpu_without_a_pcpu(self):
        self.refused("0#1,^1", 2)
        self.refused("0#,", 2)
        self.refused("1#2_0#^1", 6)

    def test_refuses_what_is_no_pinning(self):
        self.refused("", 0)
        self.refused("0", 0)
        self.refused("0#", 0)
        self.refused("#1", 0)
        self.refused("0#1_", 4)
        self.refused("0#1__1#2", 4)
        self.refused("0#1#2", 0)
        self.refused("0#1,1#2", 0)
        self.refused("0#7-3", 2)
        self.refused("0#1_1#2-x", 4)
        self.refused("0#1_1#2-3-4", 9)

    def test_refuses_what_int_would_take(self):
        for text in "+0#1", "0#+1", "٠#1", "0#١", " 0#1", "0# 1", "0#1\n":
            self.refused(text, 0)

    def test_refuses_numbers_beyond_any_machine(self):
        self.check([(4095, {8191})], "4095#8191")
        self.refused("4096#0", 0)
        self.refused("0#8192", 2)
        self.refused("0#0_4000000000#1", 4)
        self.refused("0#0-4000000000", 4)

    def test_refuses_more_pins_than_memory_should_hold(self):
        pins = [f"{vcpu}#0-8191" for vcpu in range(33)]
        fitting = "_".join(pins[:32])
        self.assertEqual(32, len(pinning.parse_pinning(fitting)))
        self.refused("_".join(pins), len(fitting) + 1)

    def test_hostile_pinnings_are_bounded(self):
        hostile = [
            "_".join(f"{vcpu}#{vcpu}-8191" for vcpu in range(4000)),
            "_".join(f"{vcpu}#0-1,^1" for vcpu in range(4096)),
            *("_" * 65536, "#" * 65536, "0#" * 32768, "0#" + "1," * 32000),
            *("0#" + "^" * 65534, "9" * 65536, "9" * 65534 + "#1"),
        ]
        for text in hostile:
            with self.subTest(text[:20]):
                self.assert_bounded(
                    pinning.parse_pinning, text, 64 * 1024 * 1024
                )

    @properties.deterministic
    @given(_pins)
    def test_reads_back_what_was_written(self, pins):
        text = "_".join(
            f"{vcpu}#{cpulist.format_cpu_list(pcpus)}"
            for vcpu, pcpus in pins.items()
        )
        self.assertEqual(tuple(pins.items()), pinning.parse_pinning(text))

    @properties.deterministic
    @given(st.one_of(st.text(), st.text("0123#_^,-:/N ")))
    def test_is_total(self, text):
        self.outcome(pinning.parse_pinning, text)
