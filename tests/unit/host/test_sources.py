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
import tomllib
import unittest
from unittest import mock

from stevedore import extension

from sriov_rt.codec import Unknown
from sriov_rt.host import observe
from sriov_rt.host import sources
from tests.unit.host import trees

PYPROJECT = pathlib.Path(__file__).resolve().parents[3] / "pyproject.toml"


def installed(found, failing=()):
    """Let stevedore find these entry points, and fail to load some."""

    def find(namespace, on_load_failure_callback):
        assert namespace == "sriov_rt.fact_sources"
        for name in failing:
            entry_point = mock.Mock()
            entry_point.name = name
            on_load_failure_callback(None, entry_point, ImportError("no x"))
        return [
            extension.Extension(name, None, plugin, None)
            for name, plugin in found.items()
        ]

    return mock.patch.object(sources.stevedore, "ExtensionManager", find)


class SourcesTest(unittest.TestCase):
    def test_entry_points_are_the_sources(self):
        project = tomllib.loads(PYPROJECT.read_text())["project"]
        declared = project["entry-points"][sources.NAMESPACE]
        self.assertEqual(
            {
                name: f"{source.__module__}:{source.__name__}"
                for name, source in trees.SOURCES.items()
            },
            declared,
        )
        self.assertEqual(set(observe.PARTS), declared.keys())

    def test_installed(self):
        with installed(trees.SOURCES):
            self.assertEqual(trees.SOURCES, sources.load())

    def test_not_installed(self):
        with installed({}):
            found = sources.load()
        self.assertEqual(set(observe.PARTS), found.keys())
        self.assertEqual(
            Unknown(
                "no fact source 'cpus' is installed in "
                "sriov_rt.fact_sources; install sriov-rt with pip"
            ),
            found["cpus"],
        )

    def test_source_that_cannot_be_imported(self):
        others = {k: v for k, v in trees.SOURCES.items() if k != "nics"}
        with installed(others, failing=["nics"]):
            found = sources.load()
        self.assertEqual(
            Unknown("its source cannot be loaded: ImportError: no x"),
            found["nics"],
        )
        self.assertIs(trees.SOURCES["cpus"], found["cpus"])

    def test_sources_of_other_names_are_passed_over(self):
        with installed({**trees.SOURCES, "weather": print}):
            self.assertNotIn("weather", sources.load())
