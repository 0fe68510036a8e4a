# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.host import compute
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.unit.host import trees

CONF = "etc/nova/nova.conf"


class ComputeTest(trees.TreeTest):
    def observe(self) -> ComputeFacts:
        return compute.observe(self.root)

    def test_sets(self):
        self.assertEqual(
            ComputeFacts(parse_cpu_list(trees.ISOLATED), frozenset({4}), None),
            self.observe(),
        )

    def test_no_configuration(self):
        self.tree.remove("etc")
        self.assertEqual(ComputeFacts(None, None, None), self.observe())
        self.assertIsNone(compute.read(self.root))

    def test_options_not_set(self):
        for text in ("", "[compute]\n", "[compute]\ncpu_dedicated_set =\n"):
            with self.subTest(text):
                self.tree.write(CONF, text)
                self.assertEqual(
                    ComputeFacts(None, None, None), self.observe()
                )
                self.assertIsNotNone(compute.read(self.root))

    def test_option_of_another_section(self):
        self.tree.write(CONF, "[DEFAULT]\ncpu_dedicated_set = 1\n")
        self.assertIsNone(self.observe().dedicated)

    def test_later_files_override(self):
        for number, path in enumerate(
            (
                "etc/nova/nova-cpu.conf",
                "etc/nova/nova-compute.conf",
                "etc/nova/nova.conf.d/10.conf",
                "etc/nova/nova.conf.d/20.conf",
                "etc/nova/nova-compute.conf.d/00.conf",
            )
        ):
            with self.subTest(path):
                text = f"[compute]\ncpu_dedicated_set = {number}\n"
                self.tree.write(path, text)
                found = self.observe()
                self.assertEqual(frozenset({number}), found.dedicated)
                self.assertEqual(frozenset({4}), found.shared)

    def test_other_files_of_a_directory_are_passed_over(self):
        self.tree.write("etc/nova/nova.conf.d/x.bak", "garbage")
        self.assertEqual(frozenset({4}), self.observe().shared)

    def test_files_of_the_operators_choice(self):
        self.tree.write("srv/n.conf", "[compute]\ncpu_shared_set = 7\n")
        self.assertEqual(
            ComputeFacts(None, frozenset({7}), None),
            compute.observe(self.root, files=("/srv/n.conf",)),
        )

    def test_garbled_set(self):
        self.tree.write(CONF, "[compute]\ncpu_dedicated_set = $all\n")
        self.assertEqual(
            Unknown(
                "[compute] cpu_dedicated_set of nova.conf: Invalid cpu list "
                "'$all' at 0: a CPU, a range such as 2-7, or ^ and one "
                "expected."
            ),
            self.observe().dedicated,
        )
        self.assertIsNone(self.observe().shared)

    def test_garbled_file_does_not_give_its_line_away(self):
        self.tree.write(CONF, "[database]\npassword hunter2\n")
        wanted = Unknown(f"/{CONF}: line 2: No ':' or '=' found in assignment")
        self.assertEqual(ComputeFacts(wanted, wanted, wanted), self.observe())

    def test_unreadable_file(self):
        self.tree.make_unreadable(CONF)
        wanted = Unknown(f"/{CONF}: Is a directory")
        self.assertEqual(ComputeFacts(wanted, wanted, wanted), self.observe())

    def test_unreadable_directory(self):
        self.tree.write("etc/nova/nova.conf.d", "")
        wanted = Unknown("/etc/nova/nova.conf.d: Not a directory")
        self.assertEqual(wanted, self.observe().dedicated)

    def test_nothing_is_run_or_looked_up(self):
        self.tree.write(
            CONF,
            "[compute]\ncpu_shared_set = 1\n"
            "cpu_dedicated_set = %(cpu_shared_set)s$(id)\n",
        )
        self.assertIn("$(id)", self.observe().dedicated.reason)
