# SPDX-License-Identifier: Apache-2.0

"""The README and the documentation match the code."""

import ast
import configparser
import importlib
import inspect
import itertools
import json
import operator
import pathlib
import re
import shlex
import textwrap
import tomllib
import unittest
from collections.abc import Iterator

from lxml import etree

from sriov_rt import facts
from sriov_rt import opts
from sriov_rt import reason
from sriov_rt import request
from sriov_rt.cmd import shell
from sriov_rt.facts import certificate
from sriov_rt.host import maintenance
from sriov_rt.labels import store
from sriov_rt.neutron import privileged
from sriov_rt.nic import tenancy
from sriov_rt.parse import errors
from sriov_rt.request import grammar
from sriov_rt.service import messaging
from sriov_rt.vif import os_vif_plugin
from sriov_rt.vif import privsep
from sriov_rt.vif import records
from tests.unit import documented_host
from tests.unit.cmd import command_lines
from tests.unit.documented_host import ROOT

PAGES = (
    ROOT / "README.rst",
    ROOT / "devstack/README.rst",
    *sorted((ROOT / "doc/source").rglob("*.rst")),
)

#: Pages whose commands are run in beds (tests/testbed/walk.py), not on the
#: documented host.
WALKS = ROOT / "doc/source/walkthroughs"

#: A command in a literal block: indented, with continued lines.
_COMMAND = re.compile(
    r"^ +(?:[#$] )?((?:sriov-rt(?!:)|openstack (?:--\S+ \S+ )?flavor)"
    r"(?:[^\n]*\\\n)*[^\n]*)$",
    re.MULTILINE,
)

#: A block of commands and their output.
_CONSOLE = re.compile(
    r"^\.\. code-block:: (?:console|none)\n\n((?:   [^\n]*\n|\n)+)",
    re.MULTILINE,
)

#: Beginning of a command's line; output may begin with a hash, too.
_PROMPT = re.compile(r"[$#] (?=[a-z][a-z-]+ [^ ])")

#: Options of commands that are parsed but not run, and why.
NOT_RUN = {
    "--flavor": "it needs a cloud; tests/cloud runs it",
    "--hotplug": "it needs a running guest; the command's own tests have one",
    "--sos": "it needs an archive; its own tests write some",
    "-o": "its pictures need matplotlib; the tests of the report write one",
}

#: Actions of ``sriov-rt verify`` that measure, for an hour.
_LONG = ("disk", "latency", "network")

#: Exit codes that are no errors: 1 if a check found problems, 3 for refusals.
_ANSWERS = (0, 1, 3)

#: Commands without a sample of their output, and why.
_NO_SAMPLE = {
    "guest repin": "it needs a running guest; tests/functional has one",
    "kubevirt domain-hook": "it serves until it is stopped",
    "kubevirt node-hook": "it serves until it is stopped",
    "kubevirt on-define-domain": "a hook, which prints the whole domain",
    "onload lxc-hook": "a hook, which prints nothing unless it refuses",
    "verify network serve": "it serves until Ctrl-C",
}


#: Keys that no sample prints, by command.
_NOT_SHOWN = {
    "agent list": {"facts"},
    "guest check": {"refused"},
    "guest render": {"refused"},
    "host check": {"onload"},
    "onload profile list": {"problem"},
}


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the page and the words of each command of a program."""
    for page in PAGES:
        if program == "sriov-rt" and page.parent == WALKS:
            continue
        for found in _COMMAND.findall(page.read_text()):
            words = shlex.split(found.replace("\\\n", " "))
            if words[0] == program:
                yield page.name, words


def samples(page: pathlib.Path) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each command of a page, and its sample output."""
    if page.parent == WALKS:
        return
    for block in _CONSOLE.findall(page.read_text()):
        text = textwrap.dedent(block).strip("\n").replace("\\\n", " ")
        lines = text.split("\n")
        starts = [n for n, line in enumerate(lines) if _PROMPT.match(line)]
        for start, end in itertools.pairwise([*starts, len(lines)]):
            words = shlex.split(lines[start][2:])
            output = "\n".join(lines[start + 1 : end]).rstrip()
            if words[0] == "sriov-rt":
                yield words, output


def name_of(words: list[str]) -> str:
    """Return the name of a command in shell.COMMANDS."""
    given = " ".join(words[1:])
    found = [each for each in shell.COMMANDS if given.startswith(each)]
    return max(found, key=len, default="")


class DocumentedCommandTest(documented_host.DocumentedHost):
    def test_each_command_runs(self):
        seen = 0
        for page, words in commands("sriov-rt"):
            if not NOT_RUN.keys().isdisjoint(words):
                command_lines.parse(words[1:])
                continue
            if words[1:2] == ["verify"] and words[2] in _LONG:
                words.append("--dry-run")
            with self.subTest(page=page, command=" ".join(words)):
                self.boot()
                code, output = self.run_command(words)
                self.assertIn(code, _ANSWERS, output)
                seen += 1
        self.assertTrue(seen)


class DocumentedOutputTest(documented_host.DocumentedHost):
    """The documentation shows the output of the commands.

    The commands of a page are run in order on one host.
    """

    REFERENCE = ROOT / "doc/source/cli/index.rst"

    def test_each_sample(self):
        for page in PAGES:
            self.boot()
            for words, expected in samples(page):
                if not NOT_RUN.keys().isdisjoint(words):
                    continue
                with self.subTest(page=page.name, command=" ".join(words)):
                    code, output = self.run_command(words)
                    self.assertIn(code, _ANSWERS, output)
                    if expected:
                        self.assertEqual(expected, output.rstrip())

    def test_each_command_has_a_sample(self):
        shown = {
            name_of(words)
            for words, output in samples(self.REFERENCE)
            if output
        }
        self.assertEqual(set(shell.COMMANDS) - set(_NO_SAMPLE), shown)

    def test_each_line_fits(self):
        for page in PAGES:
            for line in page.read_text().splitlines():
                if line.lstrip().startswith(("|", "+")):
                    self.assertLessEqual(len(line.strip()), 80)

    def test_each_command_is_named(self):
        text = " ".join(self.REFERENCE.read_text().split())
        for name in shell.COMMANDS:
            room, _, verb = name.partition(" ")
            with self.subTest(name):
                self.assertIn(f"sriov-rt {room}", text)
                self.assertIn(verb, text)


class ExitCodesTest(unittest.TestCase):
    PAGE = ROOT / "doc/source/cli/index.rst"

    def test_each_answer_of_a_command_is_listed(self):
        rows = dict(
            re.findall(
                r"^   \* - (\d+)\n     - ((?:.+\n)+?)(?=   \*|\n)",
                self.PAGE.read_text(),
                re.MULTILINE,
            )
        )
        seen = set()
        for command, place in shell.COMMANDS.items():
            name, _, cls = place.partition(":")
            module = importlib.import_module(f"sriov_rt.cmd.{name}")
            source = inspect.getsource(getattr(module, cls))
            for constant in re.findall(r"\b(?:\w+\.)?EXIT_[A-Z_]+\b", source):
                code = operator.attrgetter(constant)(module)
                if code in (1, 3):
                    with self.subTest(command, code=code):
                        self.assertIn(command.split()[-1], rows[str(code)])
                    seen.add(command)
        self.assertGreater(len(seen), 8)


class ManualTest(unittest.TestCase):
    """Each group of commands has a manual page, which sriov-rt(1) names."""

    CLI = ROOT / "doc/source/cli"

    def test_each_group_has_one(self):
        groups = {name.split()[0] for name in shell.COMMANDS}
        pages = {page.stem for page in (self.CLI / "commands").glob("*.rst")}
        self.assertEqual(groups, pages)
        conf = ast.parse((ROOT / "doc/source/conf.py").read_text())
        (described,) = (
            ast.literal_eval(each.value)
            for each in conf.body
            if isinstance(each, ast.Assign) and each.targets[0].id == "_GROUPS"
        )
        self.assertEqual(groups, set(described))
        overview = (self.CLI / "sriov-rt.rst").read_text()
        for group, description in described.items():
            page = (self.CLI / f"commands/{group}.rst").read_text()
            with self.subTest(group):
                self.assertIn(f"\n.. commands:: {group}\n", page)
                self.assertIn(
                    f"\nsriov-rt-{group}(1)\n    {description}\n", overview
                )

    def test_options_of_output_are_in_the_overview(self):
        overview = (self.CLI / "sriov-rt.rst").read_text()
        extension = ROOT / "doc/source/_exts/commands.py"
        formatters = re.findall(r'"(--[a-z-]+)"', extension.read_text())
        self.assertIn("--json", formatters)
        for option in formatters:
            self.assertIn(f"``{option}``", overview)


class DocumentedKeysTest(documented_host.DocumentedHost):
    """The page of keys has the JSON keys that the commands print."""

    PAGE = ROOT / "doc/source/cli/json.rst"

    def documented(self) -> dict[str, set[str]]:
        """Return the keys on the page, by command."""
        found = {}
        parts = re.split(r"^(.+)\n=+\n", self.PAGE.read_text(), flags=re.M)
        for title, text in zip(parts[3::2], parts[4::2], strict=True):
            keys = set(re.findall(r"^``(\S+)`` ", text, re.MULTILINE))
            found.update(dict.fromkeys(title.split(", "), keys))
        return found

    def printed(self) -> dict[str, set[str]]:
        """Return the top-level keys that each command prints."""
        found = {}
        for page in PAGES:
            self.boot()
            for words, _ in samples(page):
                if NOT_RUN.keys().isdisjoint(words):
                    keys = found.setdefault(name_of(words), set())
                    keys |= _keys(self._as_json(words))
        return {name: keys for name, keys in found.items() if keys}

    def _as_json(self, words: list[str]) -> object:
        """Return the JSON of a command; None if it has none."""
        plain = []
        for before, word in itertools.pairwise(("", *words)):
            if not {before, word} & {"-c", "-f", "-o"}:
                plain.append(word)
        if ">" in plain:
            plain = plain[: plain.index(">")]
        place = plain.index("<") if "<" in plain else len(plain)
        try:
            _, output = self.run_command(
                [*plain[:place], "--json", *plain[place:]]
            )
            # Standard error follows it.
            return json.JSONDecoder().raw_decode(output)[0]
        except (SystemExit, ValueError):
            return None

    def test_it_has_the_keys_of_each_command(self):
        documented = self.documented()
        printed = self.printed()
        self.assertEqual(set(printed), set(documented))
        for name, keys in documented.items():
            with self.subTest(name):
                shown = printed[name] | _NOT_SHOWN.get(name, set())
                self.assertEqual(shown, keys)


def _keys(document: object) -> set[str]:
    if isinstance(document, list):
        return set().union(*map(_keys, document))
    return set(document) if isinstance(document, dict) else set()


class ConfigurationTest(unittest.TestCase):
    PAGES = ROOT / "doc/source/configuration"

    def test_each_namespace_has_its_options_shown(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        shown = [
            found
            for page in self.PAGES.glob("*.rst")
            for found in re.findall(
                r"^\.\. show-options::\n\n   (\S+)$",
                page.read_text(),
                re.MULTILINE,
            )
        ]
        points = project["project"]["entry-points"]["oslo.config.opts"]
        self.assertEqual(sorted(points), sorted(shown))

    def test_it_says_who_reads_each_group(self):
        text = (self.PAGES / "index.rst").read_text()
        for group, _ in self._groups():
            name = group or "DEFAULT"
            self.assertRegex(text, rf":group:`{name}`|``\[{name}\]")

    def test_no_word_of_a_help_is_taken_for_a_reference(self):
        for group, found in self._groups():
            for opt in found:
                text = re.sub(r"``.*?``", "", opt.help, flags=re.DOTALL)
                with self.subTest(group=group, option=opt.name):
                    self.assertNotRegex(text, r"\w_(?!\w)")

    def _groups(self):
        return [
            *opts.list_opts(),
            *opts.list_nova_opts(),
            *opts.list_neutron_opts(),
            *opts.list_magnum_opts(),
        ]


class QueueTest(unittest.TestCase):
    """One option names the queue: Nova's own is only its fallback."""

    def test_what_is_shipped_names_it_in_our_section(self):
        files = [
            *PAGES,
            *(each for each in (ROOT / "etc").rglob("*") if each.is_file()),
        ]
        seen = 0
        for file in files:
            if file.suffix == ".sample":
                continue
            section = ""
            for line in file.read_text().splitlines():
                word = line.strip()
                if re.fullmatch(r"\[\w+\]|\w+:", word):
                    section = word.strip("[]:")
                elif re.match(r"transport_url *[=:]", word):
                    seen += 1
                    with self.subTest(file.relative_to(ROOT)):
                        self.assertEqual("sriov_rt", section)
        self.assertGreater(seen, 7)


class ArchitectureTest(unittest.TestCase):
    PAGE = ROOT / "doc/source/admin/architecture.rst"

    def test_each_module_is_there(self):
        found = re.findall(r"``(sriov_rt/[\w/]+\.py)``", self.PAGE.read_text())
        self.assertGreater(len(found), 10)
        for each in found:
            with self.subTest(each):
                self.assertTrue((ROOT / each).is_file())

    def test_the_picture_is_there(self):
        (name,) = re.findall(r"image:: /(\S+)", self.PAGE.read_text())
        picture = etree.parse(ROOT / "doc/source" / name).getroot()
        self.assertEqual("{http://www.w3.org/2000/svg}svg", picture.tag)


class RequirementsTest(unittest.TestCase):
    PAGE = ROOT / "doc/source/install/requirements.rst"

    def setUp(self):
        self.text = " ".join(self.PAGE.read_text().split())
        file = ROOT / "pyproject.toml"
        self.project = tomllib.loads(file.read_text())["project"]

    def test_it_names_each_extra(self):
        for extra in self.project["optional-dependencies"]:
            self.assertIn(f"``{extra}``", self.text)

    def test_it_names_the_releases(self):
        extras = self.project["optional-dependencies"]
        for name in ("nova", "neutron"):
            found = re.search(r">=(\d+)\.\d+\.\d+,<(\d+)", extras[name][0])
            *first, last = range(*map(int, found.groups()))
            releases = f"{', '.join(map(str, first))} or {last}"
            self.assertIn(f"{name.capitalize()} {releases}", self.text)

    def test_it_names_the_versions_of_python(self):
        found = re.findall(
            r"Python :: (3\.\d+)", "\n".join(self.project["classifiers"])
        )
        self.assertIn(f"are run with {' and '.join(found)};", self.text)


class TableTest(unittest.TestCase):
    def test_no_row_is_split(self):
        """In a simple table each line with a first cell begins a row."""
        for page in PAGES:
            with self.subTest(page.relative_to(ROOT)):
                self.assertNotRegex(
                    page.read_text(), re.compile(r"^``\S.*``, {2,}", re.M)
                )


#: Prefix of Nova's AggregateInstanceExtraSpecsFilter.
_OF_AGGREGATES = "aggregate_instance_extra_specs:"


class DocumentedFlavorTest(unittest.TestCase):
    """Commands for flavors on the pages work, or report their failure.

    OpenStackClient's ``flavor create --property`` exits with 0 even if Nova
    refuses the properties. Nova validates them from microversion 2.86 on.
    """

    def commands(self, verb: str) -> Iterator[tuple[str, list[str]]]:
        """Yield the page and the words of each command of a verb."""
        for page, words in commands("openstack"):
            if words[words.index("flavor") + 1] == verb:
                yield page, words

    def test_each_flavor_is_a_valid_request(self):
        seen = set()
        for page, words in self.commands("set"):
            specs = dict(
                words[place + 1].split("=", 1)
                for place, word in enumerate(words)
                if word == "--property"
            )
            if all(key.startswith(_OF_AGGREGATES) for key in specs):
                continue  # an ordinary flavor without our extra specs
            with self.subTest(page=page, flavor=specs):
                self.assertNotEqual(request.Request(), request.parse(specs))
                seen.add(page)
        self.assertLessEqual({"README.rst", "flavors.rst", "index.rst"}, seen)

    def test_no_flavor_is_made_with_properties(self):
        pages = set()
        for page, words in self.commands("create"):
            with self.subTest(page=page):
                self.assertNotIn("--property", words)
            pages.add(page)
        self.assertLessEqual({"README.rst", "flavors.rst", "index.rst"}, pages)

    def test_properties_are_set_where_nova_validates_them(self):
        for page, words in self.commands("set"):
            with self.subTest(page=page):
                self.assertEqual("--os-compute-api-version", words[1])
                version = tuple(map(int, words[2].split(".")))
                self.assertGreaterEqual(version, (2, 86))


class UpgradeTest(unittest.TestCase):
    PAGE = ROOT / "doc/source/admin/upgrade.rst"

    def test_its_versions_are_those_of_the_code(self):
        rows = re.findall(
            r"^   \* - (.+)\n     - ([\d.]+)\n",
            self.PAGE.read_text(),
            re.MULTILINE,
        )
        self.assertEqual(
            {
                "facts": str(facts.SCHEMA_VERSION),
                "messages": messaging.VERSION,
                "records": str(records.SCHEMA_VERSION),
                "labels": str(store.SCHEMA_VERSION),
                "VFs": str(tenancy.SCHEMA_VERSION),
                "latency": str(certificate.SCHEMA_VERSION),
                "hold": str(maintenance.SCHEMA_VERSION),
                "port": os_vif_plugin.VIFPortProfileSriovRt.VERSION,
            },
            {re.split(r"[ ,]", what)[0]: version for what, version in rows},
        )

    def test_it_names_what_an_older_agent_does_not_report(self):
        self.assertIn(
            facts.NOT_REPORTED.reason, " ".join(self.PAGE.read_text().split())
        )


def templates() -> Iterator[str]:
    """Yield every text of the code that may be a message, as a pattern."""
    for source in sorted((ROOT / "sriov_rt").rglob("*.py")):
        tree = ast.parse(source.read_text())
        parts = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts.update(node.values)
                yield "".join(
                    re.escape(str(each.value))
                    if isinstance(each, ast.Constant)
                    else _ANYTHING
                    for each in node.values
                )
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node not in parts
            ):
                pieces = re.split(r"%[\d.]*[a-z]|{\w+}", node.value)
                yield _ANYTHING.join(map(re.escape, pieces))


#: Pattern for the value of a message's field.
_ANYTHING = r"(?:.*?)"

#: The least number of letters in a pattern that is specific enough.
_TELLING = 10


class ReleaseNotesTest(unittest.TestCase):
    def test_each_extra_spec_and_command_is_in_a_note(self):
        paths = (ROOT / "releasenotes/notes").glob("*.yaml")
        notes = " ".join(each.read_text() for each in paths)
        found = " ".join(re.sub("``", " ", notes).split())
        specs = {f"sriov_rt:{name}" for name in grammar.KEYS}
        for name in sorted(specs | shell.COMMANDS.keys()):
            with self.subTest(name):
                self.assertRegex(found, rf"{name}(?!\w)")


class TroubleshootingTest(unittest.TestCase):
    PAGE = ROOT / "doc/source/admin/troubleshooting.rst"

    def setUp(self):
        self.text = self.PAGE.read_text()

    def test_each_sentence_is_one_of_the_code(self):
        # The letters of a piece that is not from the code remain.
        patterns = [
            re.compile(each)
            for each in {*templates()}
            if len(re.sub(r"\W", "", each.replace(_ANYTHING, ""))) >= _TELLING
        ]
        found = re.findall(
            r"^ *\.\. code-block:: text\n\n((?: +.+\n)+)",
            self.text,
            re.MULTILINE,
        )
        sentences = [" ".join(each.split()) for each in found]
        self.assertGreater(len(sentences), 20)
        for sentence in sentences:
            rest = sentence
            for pattern in sorted(patterns, key=_length, reverse=True):
                rest = pattern.sub("", rest, count=1)
            with self.subTest(sentence):
                # Only names and figures should remain.
                self.assertLess(len(rest), max(50, 0.4 * len(sentence)), rest)

    def test_a_refused_value_has_the_grammars_sentence(self):
        with self.assertRaises(errors.ParseError) as caught:
            grammar.parse_value("realtime", "maybe")
        shown = re.search(
            r"sriov_rt:realtime: (Invalid.*?\.)\n", self.text, re.DOTALL
        )
        assert shown is not None
        self.assertEqual(str(caught.exception), " ".join(shown[1].split()))

    def test_each_section_says_what_to_do(self):
        sections = re.split(r"^=+$", self.text, flags=re.MULTILINE)[3:]
        self.assertGreater(len(sections), 15)
        for section in sections:
            with self.subTest(section.strip()[:60]):
                self.assertTrue(
                    "What to do" in section or "helper_command" in section
                )

    def test_each_reason_it_names_is_one_of_the_code(self):
        named = re.findall(r"with ``([a-z]+_\w+)``", self.text)
        self.assertGreater(len(named), 2)
        for code in named:
            self.assertIn(code, reason.SENTENCES)


def _length(pattern: re.Pattern[str]) -> int:
    return len(pattern.pattern.replace(_ANYTHING, ""))


class SecurityTest(unittest.TestCase):
    PAGE = ROOT / "doc/source/admin/security.rst"

    def setUp(self):
        rows = re.findall(
            r"^   \* - (.+)\n     - (.+)\n     - ((?:.+\n)(?:       .+\n)*)",
            self.PAGE.read_text(),
            re.MULTILINE,
        )
        self.rows = {what: (owner, text) for what, owner, text in rows}

    def _capabilities(self, what: str) -> set[str]:
        return set(re.findall(r"CAP_\w+", self.rows[what][1]))

    def test_each_unit_has_the_capabilities_it_says(self):
        units = sorted((ROOT / "etc/systemd").glob("*.service"))
        for unit in units:
            found = configparser.ConfigParser(strict=False, interpolation=None)
            found.read(unit)
            service = found["Service"]
            what = f"``{unit.name}``"
            with self.subTest(unit.name):
                self.assertEqual(
                    set(service["CapabilityBoundingSet"].split()),
                    self._capabilities(what),
                )
                user = service.get("User", "root")
                self.assertEqual(f"``{user}``", self.rows[what][0])

    def test_each_daemon_has_the_capabilities_it_says(self):
        for what, module, name in (
            (
                "``[sriov_rt_privileged]`` of nova-compute",
                privsep,
                "vif_plug",
            ),
            (
                "``[sriov_rt_vf_set]`` of neutron-sriov-nic-agent",
                privileged,
                "vf_set",
            ),
            (
                "``[sriov_rt_vf_clean]`` of neutron-sriov-nic-agent",
                privileged,
                "vf_clean",
            ),
        ):
            with self.subTest(what):
                # Read it from the text: a context has its defaults in
                # oslo.config's global object, which other tests clear.
                context = re.search(
                    rf"^{name} = priv_context.PrivContext\((.*?)^\)",
                    inspect.getsource(module),
                    re.DOTALL | re.MULTILINE,
                )[1]
                self.assertEqual(
                    set(re.findall(r"CAP_\w+", context)),
                    self._capabilities(f"daemon {what}"),
                )

    def test_a_sudo_rule_names_the_daemon(self):
        context = re.escape(privsep.vif_plug.pypath)
        self.assertIn(f"--privsep_context {context} ", self.PAGE.read_text())
