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


import pathlib
import subprocess
import tempfile
import unittest

from tests.testbed import earlier
from tests.testbed import errors


class UnpackTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.room = pathlib.Path(scratch.name)
        self.repository = self.room / "repository"
        self.repository.mkdir()
        self.git("init", "--quiet")
        self.first = self.commit("first")
        self.commit("second")

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            (
                *("git", "-c", "user.name=a", "-c", "user.email=a@b"),
                *("-C", str(self.repository), *arguments),
            ),
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()

    def commit(self, content: str) -> str:
        (self.repository / "file").write_text(content)
        self.git("add", "file")
        self.git("commit", "--quiet", "-m", content)
        return self.git("rev-parse", "HEAD")

    def test_the_files_are_those_of_the_commit(self) -> None:
        target = self.room / "target"
        earlier.unpack(self.first, target, self.repository)
        self.assertEqual("first", (target / "file").read_text())

    def test_a_shallow_clone_is_told_what_to_fetch(self) -> None:
        clone = self.room / "clone"
        source = f"file://{self.repository}"
        self.git("clone", "--quiet", "--depth", "1", source, str(clone))
        with self.assertRaisesRegex(
            errors.TestbedError,
            f"{self.first} is not in the git history of {clone}; in a "
            f"shallow clone run 'git fetch origin {self.first}' first",
        ):
            earlier.unpack(self.first, self.room / "target", clone)
