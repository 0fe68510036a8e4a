# SPDX-License-Identifier: Apache-2.0

"""Tables of the documentation have a row for each row of the code."""

import importlib.util
import re
import unittest
from unittest import mock

from sriov_rt import reason
from sriov_rt.guest import claims
from sriov_rt.host import observer
from sriov_rt.host.root import Root
from sriov_rt.labels import store
from sriov_rt.nic import families
from sriov_rt.nic import tenancy
from sriov_rt.verify.profiles import DEFAULT
from sriov_rt.verify.profiles import PROFILES
from sriov_rt.verify.tools import TOOLS
from tests.unit.documented_host import ROOT
from tests.unit.host import trees

#: Files of the page's examples, which do not exist.
EXAMPLES = {"sriov_rt/cmd/cpus.py"}

EXTENSION = ROOT / "doc/source/_exts/tables.py"

#: A file that a process has open.
_DESCRIPTOR = re.compile(r"proc/\d+/fd/\d+")


def load():
    """Return the module of the extension, which is not in a package."""
    spec = importlib.util.spec_from_file_location("tables", EXTENSION)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load()


class ReasonsTest(unittest.TestCase):
    """Reasons by which a host is judged realtime are on the hosts' page."""

    MODULES = ("realtime", "cgroup", "power", "occupancy")

    def test_each_code_is_on_the_page_of_hosts(self):
        page = (ROOT / "doc/source/admin/host.rst").read_text()
        for name in self.MODULES:
            path = ROOT / "sriov_rt/decide" / f"{name}.py"
            words = re.findall(r'"([a-z_]+)"', path.read_text())
            found = reason.SENTENCES.keys() & words
            self.assertTrue(found)
            for code in sorted(found):
                with self.subTest(code, module=name):
                    self.assertIn(f"``{code}``", page)


class TablesTest(unittest.TestCase):
    def first_cells(self, name):
        table = tables.TABLES[name]
        return [row[0] for row in table.rows()]

    def test_each_table_is_on_one_page(self):
        pages = [
            page.read_text()
            for page in sorted((ROOT / "doc/source").rglob("*.rst"))
        ]
        for name in tables.TABLES:
            found = [
                each
                for text in pages
                for each in re.findall(rf"^\.\. {name}::$", text, re.MULTILINE)
            ]
            with self.subTest(table=name):
                self.assertEqual(1, len(found))

    def test_each_is_a_list_table(self):
        for name, table in tables.TABLES.items():
            with self.subTest(table=name):
                lines = list(tables.lines(table))
                self.assertEqual(".. list-table::", lines[0])
                self.assertEqual(100, sum(table.widths))
                for row in table.rows():
                    self.assertTrue(all(cell.strip() for cell in row), row)

    def test_each_latency_tool_has_a_row(self):
        self.assertEqual(
            [f"``{each}``" for each in TOOLS],
            self.first_cells("latency-tools"),
        )

    def test_each_profile_has_a_row_with_its_tools(self):
        rows = list(tables.TABLES["latency-profiles"].rows())
        for row, profile in zip(rows, PROFILES.values(), strict=True):
            self.assertIn(f"``{profile.name}``", row[0])
            self.assertEqual(profile.name == DEFAULT, "default" in row[0])
            for step in profile.steps:
                self.assertIn(step.tool, row[2])
        self.assertIn("cyclictest 12h every 200 µs", rows[2][2])

    def test_each_fact_source_has_its_files(self):
        rows = {row[0]: row[2] for row in tables.TABLES["fact-files"].rows()}
        self.assertEqual({f"``{each}``" for each in observer.PARTS}, {*rows})
        self.assertIn("``/proc/cmdline``", rows["``kernel``"])
        self.assertIn("``/sys/fs/cgroup``", rows["``cpus``"])
        for part, files in rows.items():
            with self.subTest(part=part):
                self.assertIn("``/", files)

    def test_hardware_says_how_each_family_is_known(self):
        rows = list(tables.TABLES["nic-hardware"].rows())
        self.assertIn(
            ("Intel", "82576", "``igb``, legacy", "run, on an emulated one"),
            rows,
        )
        self.assertEqual(
            [each.evidence.value for each in families.BUILT_IN],
            [row[-1] for row in rows],
        )

    def test_nic_families_have_the_numbers_of_the_rows(self):
        table = tables.TABLES["nic-families"]
        rows = {
            name: {
                family: value
                for line in cell.splitlines()
                for families_, value in [line[2:].split(": ", 1)]
                for family in re.findall(r"\*\*(.+?)\*\*", families_)
            }
            for name, cell in table.rows()
        }
        for name, cells in rows.items():
            with self.subTest(attribute=name):
                self.assertEqual(
                    {each.name for each in families.BUILT_IN}, {*cells}
                )
        self.assertIn("11 to 10000", rows["max_tx_rate"]["ixgbe"])
        self.assertIn("in steps of 50", rows["max_tx_rate"]["i40e"])
        for row in families.BUILT_IN:
            with self.subTest(family=row.name):
                self.assertTrue(row.models)
                self.assertEqual(row.models, rows["Models"][row.name])
                self.assertIn(
                    str(row.max_vfs or "``sriov_totalvfs``"),
                    rows["VFs of a PF"][row.name],
                )
                for each in (row.mac_filters.each, row.mac_filters.shared):
                    if each is not None:
                        filters = rows["MAC filters of a VF"][row.name]
                        self.assertRegex(filters, rf"\b{each}\b")
                for attribute, why in row.why_not.items():
                    if str(attribute) in rows:
                        self.assertIn("none", rows[str(attribute)][row.name])
                        self.assertTrue(why)

    def test_state_on_disk_has_each_store(self):
        rows = {row[0].strip("`"): row for row in self.stores()}
        for path, module in (
            (f"/{tenancy.DIRECTORY}", "sriov_rt/nic/tenancy.py"),
            (f"/{claims.PLACE}", "sriov_rt/guest/claims.py"),
            (store.PATH, "sriov_rt/labels/store.py"),
            ("/run/sriov-rt/vif", "sriov_rt/vif/records.py"),
        ):
            with self.subTest(path):
                self.assertEqual(f"``{module}``", rows[path][2])

    def test_an_emulated_machine_has_each_for_itself(self):
        """Below its overlay, another bed on the same host writes there."""
        script = ROOT / "tests/testbed/rtvm/guest/system.sh"
        mounted = re.findall(r"/var/lib/sriov-rt[\w-]*", script.read_text())
        found = {
            match[0]
            for row in self.stores()
            if (match := re.match(r"/var/lib/[\w-]+", row[0].strip("`")))
        }
        self.assertEqual(found, set(mounted))

    def test_pages_name_no_other_state(self):
        known = {row[0].strip("`") for row in self.stores()}
        # Paths of packages, images, Neutron's agent and the tests.
        known |= {"/etc/sriov_rt", "/var/lib/sriov-rt-neutron"}
        for page in sorted((ROOT / "doc/source").rglob("*.rst")):
            for name in re.findall(
                r"``(/(?:run|var/lib|etc)/sriov[-_]rt[^` ]*)``",
                page.read_text(),
            ):
                with self.subTest(page=page.name, path=name):
                    self.assertTrue(
                        any(
                            f"{each}/".startswith(f"{name}/")
                            or name.startswith((f"{each}/", f"{each}."))
                            for each in known
                        )
                    )

    def stores(self):
        return list(tables.TABLES["state-on-disk"].rows())

    def test_maps_have_a_line_for_each_module(self):
        for room in ("nic", "verify", "vif"):
            rows = list(tables.TABLES[f"modules-of-{room}"].rows())
            paths = (ROOT / "sriov_rt" / room).glob("*.py")
            self.assertEqual(
                {each.name for each in paths} - {"__init__.py"},
                {name.strip("`") for name, _ in rows},
            )


class ContributorTest(unittest.TestCase):
    def test_each_file_that_the_page_names_is_there(self):
        pages = (ROOT / "doc/source/contributor").glob("*.rst")
        text = "".join(page.read_text() for page in pages)
        named = set(re.findall(r"``((?:[a-z_]+/)*[a-z_]+\.py)``", text))
        self.assertGreater(len(named), 30)
        for name in sorted(named - EXAMPLES):
            with self.subTest(name):
                places = [
                    ROOT / name,
                    ROOT / "shim" / name,
                    ROOT / "sriov_rt" / name,
                    *(ROOT.glob(f"sriov_rt/*/{name}")),
                ]
                self.assertTrue(any(each.exists() for each in places))


def _numbers_apart(name):
    return re.sub(r"\d+", "N", name)


class FactFilesTest(trees.TreeTest):
    def test_each_file_that_a_source_reads_is_on_the_page(self):
        page = (ROOT / "doc/source/admin/host.rst").read_text()
        named = {
            _numbers_apart(part)
            for literal in re.findall(r"``([^`]+)``", page)
            for part in re.split(r"[/ ]", literal)
        }
        rows = [row[2] for row in tables.TABLES["fact-files"].rows()]
        listed = re.findall("``/([^`]+)``", " ".join(rows))
        self.assertGreater(len(listed), 40)
        for path in sorted(self.read()):
            below = any(f"{path}/".startswith(f"{each}/") for each in listed)
            name = _numbers_apart(path.rpartition("/")[2])
            with self.subTest(path=path):
                self.assertTrue(below or name in named)

    def read(self):
        """Return the paths that the sources read on the example host."""
        found = set()
        locate = Root.locate

        def note(root, relative, **options):
            found.add(relative)
            return locate(root, relative, **options)

        with mock.patch.object(Root, "locate", note):
            for source in trees.SOURCES.values():
                source(self.root)
        self.assertIn("proc/cmdline", found)
        # Leave out descriptors of processes, whose numbers mean nothing.
        return {each for each in found if not _DESCRIPTOR.fullmatch(each)}
