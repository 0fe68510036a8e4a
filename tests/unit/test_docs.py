# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the README and the documentation show is what the code takes."""

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import tempfile
import unittest
import unittest.mock
from collections.abc import Iterator

from sriov_rt import request
from sriov_rt.cmd import main
from sriov_rt.nic import vfs
from sriov_rt.vif import host
from tests.unit import builders
from tests.unit.nic import fakes
from tests.unit.vif import fakes as vif_fakes

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.rst", *sorted((ROOT / "doc/source").rglob("*.rst")))

#: A command in a literal block: indented, with continued lines.
_COMMAND = re.compile(
    r"^ +(?:[#$] )?((?:sriov-rt|openstack flavor)(?:[^\n]*\\\n)*[^\n]*)$",
    re.MULTILINE,
)

#: Commands that need a cloud; tests/cloud runs those.
_ONLINE = ("--flavor",)


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the page and the words of each command of a program."""
    for page in PAGES:
        for found in _COMMAND.findall(page.read_text()):
            words = shlex.split(found.replace("\\\n", " "))
            if words[0] == program:
                yield page.name, words


class DocumentedCommandTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        os.chdir(place.name)
        facts = json.dumps(builders.realtime_host().to_plain())
        pathlib.Path("hosts").mkdir()
        for name in ("facts.json", "rt-1.json", "hosts/rt-1.json"):
            pathlib.Path(name).write_text(facts)
        self._write_onload(pathlib.Path(place.name).resolve())
        domains = ROOT / "tests/unit/guest/domains"
        self.domain = (domains / "nova-realtime.xml").read_text()

    def _write_onload(self, place: pathlib.Path) -> None:
        (place / "latency.opf").write_text("onload_set EF_POLL_USEC 100000\n")
        (place / "sriov-rt.conf").write_text(
            f"[onload]\nprofile_directories = {place}\nprofiles = latency\n"
            f"library = {place}/libonload.so\ndevices =\n"
        )
        (place / "pod.json").write_text(
            '{"spec": {"containers": [{"name": "c", "image": "i"}]}}'
        )

    def _run(self, words: list[str]) -> tuple[int, str]:
        printed, told = io.StringIO(), io.StringIO()
        arguments = words[1:]
        source = None
        if "<" in arguments:
            source = arguments.index("<")
        elif ">" in arguments:
            source = arguments.index(">")
        given = self.domain
        if arguments[-1].endswith(".json") and "<" in arguments:
            given = pathlib.Path(arguments[-1]).read_text()
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(told),
            unittest.mock.patch("sys.stdin", stdin),
            unittest.mock.patch.object(
                vfs.Vfs,
                "of_host",
                lambda root: fakes.vfs(fakes.FakeKernel("i40e", vfs=4)),
            ),
            unittest.mock.patch.object(
                host,
                "configured",
                lambda files: vif_fakes.plugger(pathlib.Path("journal")),
            ),
        ):
            code = main.main(arguments[:source])
        return code, printed.getvalue() + told.getvalue()

    def test_each_command_runs(self):
        seen = 0
        for page, words in commands("sriov-rt"):
            if any(word in _ONLINE for word in words):
                main.build_parser(words[1:]).parse_args(words[1:])
                continue
            with self.subTest(page=page, command=" ".join(words)):
                code, output = self._run(words)
                # 1 is an answer too: this machine need not be realtime.
                self.assertIn(code, (0, 1), output)
                seen += 1
        self.assertTrue(seen)


class DocumentedFlavorTest(unittest.TestCase):
    def test_each_flavor_is_a_valid_request(self):
        seen = 0
        for page, words in commands("openstack"):
            specs = dict(
                words[place + 1].split("=", 1)
                for place, word in enumerate(words)
                if word == "--property"
            )
            with self.subTest(page=page, flavor=specs):
                self.assertNotEqual(request.Request(), request.parse(specs))
                seen += 1
        self.assertTrue(seen)
