# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.codec import Unknown
from tests.unit import builders

VIEW = decide.View(now=0.0)

GIB = 1024 * 1024


class CapacityTest(unittest.TestCase):
    def codes(self, size, pools, view=VIEW):
        specs = {"sriov_rt:kernel": "any", "hw:mem_page_size": size}
        host = builders.realtime_host(memory={"hugepages": pools})
        asked = request.parse(specs)
        # What schedulers keep has to do for the same answer.
        found = decide.why_not(asked, host, view)
        self.assertEqual(
            found, decide.why_not(asked, facts.decisive(host), view)
        )
        return [each.code for each in found]

    def test_a_page_size_that_the_host_has_none_of(self):
        two, one = facts.HugePages(0, 2048, 8), facts.HugePages(1, GIB, 1)
        for size, pools, missing in (
            ("large", (), True),
            ("large", (facts.HugePages(0, 2048, 0),), True),
            ("large", (two,), False),
            ("1GB", (two,), True),
            ("1GB", (two, one), False),
            ("1048576", (one,), False),
            ("2048", (one,), True),
            ("2MB", (two,), False),
            ("small", (), False),
            ("any", (), False),
            ("4", (), False),
            ("4KB", (), False),
            ("who knows", (), False),
            ("1GB", Unknown("garbled"), False),
        ):
            with self.subTest(size=size, pools=pools):
                expected = ["huge_pages_missing"] if missing else []
                self.assertEqual(expected, self.codes(size, pools))

    def test_memory_in_whole_pages(self):
        host = builders.realtime_host(
            memory={"hugepages": (facts.HugePages(0, GIB, 4),)}
        )
        asked = request.parse(
            {"sriov_rt:kernel": "any", "hw:mem_page_size": "1GB"}
        )
        for memory_mib, expected in (
            (1024, []),
            (2048, []),
            (1536, ["memory_not_whole_pages"]),
            (5120, ["huge_pages_too_few"]),
        ):
            found = decide.why_never(
                asked, 1, memory_mib, facts.decisive(host)
            )
            with self.subTest(memory_mib):
                self.assertEqual(expected, [each.code for each in found])

    def test_pages_are_nobodys_concern_where_nova_does_not_place(self):
        elsewhere = decide.View(now=0.0, placed_by_nova=False)
        self.assertEqual([], self.codes("large", (), elsewhere))

    def test_the_size_is_named_as_the_boot_line_takes_it(self):
        for size, shown, wanted in (
            ("large", "any size", "1G"),
            ("2MB", "2 MiB", "2M"),
            ("1048576", "1 GiB", "1G"),
        ):
            asked = request.parse({"hw:mem_page_size": size})
            host = builders.realtime_host(memory={"hugepages": ()})
            (found,) = decide.why_not(asked, host, VIEW)
            self.assertIn(f"({shown})", found.problem)
            self.assertIn(f"hugepagesz={wanted} ", found.remedy)

    def test_what_not_even_an_empty_host_holds(self):
        asked = request.parse(
            {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "large"}
        )
        host = builders.realtime_host()
        pcpus = len(host.compute.dedicated)
        for vcpus, memory_mib, expected in (
            (pcpus, 600, []),
            (pcpus + 1, 600, ["pcpus_too_few"]),
            (pcpus, 601, ["huge_pages_too_few"]),
        ):
            found = decide.why_never(asked, vcpus, memory_mib, host)
            self.assertEqual(expected, [each.code for each in found])
        self.assertEqual((), decide.why_never(asked, 9, 9, None))
        self.assertEqual((), decide.why_not(asked, host, VIEW))
