# SPDX-License-Identifier: Apache-2.0

"""The jobs of Zuul run existing environments."""

import configparser
import pathlib
import unittest
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).parents[2]


class ZuulTest(unittest.TestCase):
    """.zuul.yaml, which no Zuul has run yet."""

    def setUp(self) -> None:
        items = yaml.safe_load((ROOT / ".zuul.yaml").read_text())
        self.jobs = {
            each["job"]["name"]: each["job"] for each in items if "job" in each
        }
        (self.project,) = (
            each["project"] for each in items if "project" in each
        )
        tox = configparser.ConfigParser(interpolation=None)
        tox.read(ROOT / "tox.ini")
        self.environments = {
            each.removeprefix("testenv:") for each in tox.sections()
        }

    def test_jobs_of_this_project_are_defined(self) -> None:
        for pipeline in ("check", "gate"):
            for name in self.project[pipeline]["jobs"]:
                if name.startswith("sriov-rt"):
                    self.assertIn(name, self.jobs)

    def test_each_environment_is_one_of_tox(self) -> None:
        wanted = {
            job["vars"]["tox_envlist"]
            for job in self.jobs.values()
            if self._runs_tox(job)
        }
        for name in self.project["check"]["jobs"]:
            kind, _, environment = name.rpartition("-")
            # tox knows py311 and the like without a section.
            if kind == "openstack-tox" and not environment.startswith("py3"):
                wanted.add(environment)
        self.assertEqual({"functional", "pep8"}, wanted)
        self.assertEqual(set(), wanted - self.environments)

    def _runs_tox(self, job: dict[str, Any]) -> bool:
        return str(job["parent"]) == "openstack-tox"

    def test_every_python_of_the_package_has_a_job(self) -> None:
        prefix = '    "Programming Language :: Python :: 3.'
        wanted = {
            "openstack-tox-py3" + line.removeprefix(prefix).rstrip('",')
            for line in (ROOT / "pyproject.toml").read_text().splitlines()
            if line.startswith(prefix)
        }
        self.assertEqual(2, len(wanted))
        self.assertEqual(set(), wanted - set(self.project["gate"]["jobs"]))
