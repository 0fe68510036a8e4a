# SPDX-License-Identifier: Apache-2.0

"""The pins of each release, as far as no release is needed to check them."""

import pathlib
import re
import tomllib
import unittest

ROOT = pathlib.Path(__file__).parents[2]
LISTS = sorted((ROOT / "tests" / "constraints").glob("*.txt"))

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)")


def _names(lines):
    words = (line.partition("#")[0].strip() for line in lines)
    return {
        re.sub(r"[-_.]+", "-", _REQUIREMENT.match(word)[1]).lower()
        for word in words
        if word
    }


class ConstraintsTest(unittest.TestCase):
    def test_there_is_one_for_each_release(self):
        self.assertEqual(
            ["2025.2", "2026.1", "2026.2"], [each.stem for each in LISTS]
        )

    def test_each_pins_all_that_is_required(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        extras = project["project"]["optional-dependencies"]
        wanted = _names((ROOT / "requirements.txt").read_text().splitlines())
        for extra in extras.values():
            wanted |= _names(extra)
        for each in LISTS:
            with self.subTest(release=each.stem):
                pinned = _names(each.read_text().splitlines())
                self.assertEqual(set(), wanted - pinned)

    def test_a_pin_is_one_version(self):
        for each in LISTS:
            for line in each.read_text().splitlines():
                if not line.startswith("#") and line:
                    self.assertRegex(line, r"^[\w.-]+==[\w.]+$")
