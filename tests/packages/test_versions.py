# SPDX-License-Identifier: Apache-2.0

"""Versions of packages grow with each commit, and a release is above them."""

import itertools
import pathlib
import subprocess
import tempfile
import unittest

from tests.packages import sources

#: Of Python's, in order.
PRERELEASES = (
    *("1.0.0.0b1", "1.0.0.0rc1.dev9", "1.0.0.0rc1", "1.0.0.0rc2.dev3"),
    *("1.0.0.0rc2", "1.0.0", "1.0.1.dev1", "1.0.1", "1.1.0.dev10", "1.1.0"),
)


def of_commits(count: int) -> list[str]:
    """Return the versions of this commit and of those before it, in order."""
    with tempfile.TemporaryDirectory() as scratch:
        return [
            sources.version(f"HEAD~{each}", pathlib.Path(scratch))
            for each in reversed(range(count))
        ]


class VersionsTest(unittest.TestCase):
    def _grow(self, versions: list[str]) -> None:
        sortable = [
            f"{sources.versions()['sortable'](each)}-0openstack1"
            for each in versions
        ]
        for before, after in itertools.pairwise(sortable):
            command = ("dpkg", "--compare-versions", before, "lt", after)
            with self.subTest(before=before, after=after):
                self.assertEqual(0, subprocess.run(command).returncode)

    def test_each_commit_is_greater_and_the_release_greatest(self) -> None:
        found = of_commits(4)
        release = found[-1].partition(".dev")[0]
        self._grow([*found, release] if release != found[-1] else found)

    def test_candidates_come_before_their_release(self) -> None:
        self._grow(["1.0.0.dev9", "1.0.0.dev10", "1.0.0.dev601", "1.0.0"])
        self._grow(list(PRERELEASES))

    def test_the_changelog_has_it(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            tree = pathlib.Path(directory, "tree")
            sources.copy(tree)
            sources.versions()["set_changelog"](tree, "1.0.0.dev601")
            command = ("dpkg-parsechangelog", "-S", "Version")
            done = subprocess.run(
                command, cwd=tree, capture_output=True, text=True, check=True
            )
        self.assertEqual("1.0.0~dev601-0openstack1\n", done.stdout)
