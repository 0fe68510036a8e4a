# SPDX-License-Identifier: Apache-2.0

"""Shipped files do their job, and all files are shipped.

Each of these faults is silent: a policy that only warns, a unit that may not
write where its program does, a file that no package has.
"""

import configparser
import fnmatch
import json
import pathlib
import re
import tomllib
import unittest
from collections.abc import Iterator
from typing import Any

import yaml

from tests.unit.documented_host import ROOT

ETC = ROOT / "etc"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

#: Required actions of a binding: audit annotations and warnings don't refuse.
DENY = ["Deny"]

#: Allowed verbs in ClusterRoles, by resource. Nodes are also in NAMED.
RULES = {("", "nodes"): {"get", "list", "watch"}}
NAMED = {("", "nodes")}

#: Files of etc/ that only builders of packages need, or that are generated.
UNSHIPPED = {
    "etc/sriov_rt/config-generator.conf",
    "etc/sriov_rt/neutron-config-generator.conf",
    "etc/sriov_rt/nova-config-generator.conf",
}

#: Directory that units may write to.
RUN = "/run/sriov-rt"


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the documents of Kubernetes of all shipped files."""
    for path in sorted(ETC.rglob("*.y*ml")):
        for each in yaml.safe_load_all(path.read_text()):
            if isinstance(each, dict) and "kind" in each:
                yield str(path.relative_to(ROOT)), each


def of_kind(pattern: str) -> list[tuple[str, dict[str, Any]]]:
    return [x for x in documents() if fnmatch.fnmatch(x[1]["kind"], pattern)]


class KubernetesTest(unittest.TestCase):
    def test_policies_fail_closed(self) -> None:
        found = of_kind("*AdmissionPolicy")
        self.assertGreater(len(found), 7)
        for path, each in found:
            with self.subTest(path, name=each["metadata"]["name"]):
                self.assertEqual("Fail", each["spec"]["failurePolicy"])

    def test_each_policy_is_bound_and_denies(self) -> None:
        policies = {
            (each["kind"], each["metadata"]["name"])
            for _, each in of_kind("*AdmissionPolicy")
        }
        bound = set()
        for path, each in of_kind("*AdmissionPolicyBinding"):
            kind = each["kind"].removesuffix("Binding")
            bound.add((kind, each["spec"]["policyName"]))
            if kind.startswith("Validating"):
                with self.subTest(path, name=each["metadata"]["name"]):
                    self.assertEqual(DENY, each["spec"]["validationActions"])
        self.assertEqual(policies, bound)

    def test_roles_have_what_their_program_reads_and_no_more(self) -> None:
        found = [*of_kind("ClusterRole"), *of_kind("Role")]
        ours = [x for x in found if x[1]["metadata"]["name"][:8] == "sriov-rt"]
        self.assertTrue(ours)
        for path, each in ours:
            for rule in each["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        with self.subTest(path, resource=resource):
                            self.assertEqual(
                                RULES[group, resource], {*rule["verbs"]}
                            )
                            if (group, resource) in NAMED:
                                self.assertTrue(rule.get("resourceNames"))


class AlertsTest(unittest.TestCase):
    def setUp(self) -> None:
        text = (ETC / "prometheus/sriov-rt.rules.yml").read_text()
        (group,) = yaml.safe_load(text)["groups"]
        self.rules = group["rules"]
        self.sources = "".join(
            path.read_text()
            for path in (ROOT / "sriov_rt").rglob("metrics*.py")
        )

    def test_labels_of_a_sentence_survive_its_expression(self) -> None:
        for rule in self.rules:
            if "alert" not in rule:
                continue
            text = json.dumps(rule["annotations"])
            named = set(re.findall(r"\$labels\.(\w+)", text)) - {"instance"}
            kept = re.search(r"\bby \(([^)]*)\)", rule["expr"])
            if kept is None:
                continue
            with self.subTest(rule["alert"]):
                self.assertLessEqual(
                    named | {"instance"}, set(kept[1].split(", "))
                )

    def test_labels_are_those_of_our_metrics(self) -> None:
        text = (
            json.dumps(self.rules)
            + (ETC / "grafana/sriov-rt.json").read_text()
        )
        named = {
            *re.findall(r"\$labels\.(\w+)", text),
            *re.findall(r"[{,] *(\w+)(?:=~|!=|!~|=)\\?\"", text),
            *(
                each.strip()
                for found in re.findall(r"\bby \(([^)]*)\)", text)
                for each in found.split(",")
            ),
        }
        # Without labels that Prometheus or a histogram adds.
        ours = named - {"instance", "job", "le"}
        self.assertGreater(len(ours), 5)
        for each in sorted(ours):
            with self.subTest(each):
                self.assertIn(f'"{each}"', self.sources)


class UnitsTest(unittest.TestCase):
    def units(self) -> Iterator[tuple[str, configparser.SectionProxy]]:
        for path in sorted((ETC / "systemd").glob("*.service")):
            parsed = configparser.RawConfigParser(strict=False)
            parsed.optionxform = str  # type: ignore[method-assign,assignment]
            parsed.read(path)
            yield path.name, parsed["Service"]

    def test_programs_are_those_of_the_package(self) -> None:
        programs = {
            f"/usr/bin/{each}" for each in PROJECT["project"]["scripts"]
        }
        for name, unit in self.units():
            for key in ("ExecStart", "ExecReload"):
                words = unit.get(key, "").split()
                if words and words[0] != "/bin/sh":
                    with self.subTest(name, key=key):
                        self.assertIn(words[0], programs)

    def test_where_a_unit_may_write_is_where_its_program_does(self) -> None:
        """Under ProtectSystem=strict all else is read-only."""
        for name, unit in self.units():
            if unit.get("ProtectSystem") != "strict":
                continue
            paths = {
                *unit.get("ReadWritePaths", "").replace("-/", "/").split(),
                *(
                    f"/{place}/{unit[key]}"
                    for key, place in (
                        ("StateDirectory", "var/lib"),
                        ("RuntimeDirectory", "run"),
                        ("LogsDirectory", "var/log"),
                    )
                    if key in unit
                ),
            }
            with self.subTest(name):
                self.assertEqual({WRITES[name]}, paths)

    def test_what_is_made_at_boot_is_roots(self) -> None:
        lines = (ETC / "tmpfiles.d/sriov-rt.conf").read_text().splitlines()
        found = [each.split() for each in lines if each[:1] not in ("", "#")]
        self.assertEqual([["d", RUN, "0755", "root", "root", "-"]], found)


#: Directories that the program of each unit writes to: records of VFs in /run,
#: the last known labels.
WRITES = {
    "sriov-rt-agent.service": "/var/lib/sriov-rt",
    "sriov-rt-devices.service": RUN,
    "sriov-rt-restore.service": RUN,
    "sriov-rt-vfs.service": RUN,
}


class PackagesTest(unittest.TestCase):
    def test_a_wheel_has_each_file_of_etc(self) -> None:
        listed = {
            str(path.relative_to(ROOT))
            for patterns in PROJECT["tool"]["setuptools"][
                "data-files"
            ].values()
            for pattern in patterns
            for path in ROOT.glob(pattern)
            if path.is_file()
        }
        files = {
            str(path.relative_to(ROOT))
            for path in ETC.rglob("*")
            if path.is_file()
        }
        self.assertEqual(files - UNSHIPPED, listed)

    def test_each_pattern_finds_something(self) -> None:
        for patterns in PROJECT["tool"]["setuptools"]["data-files"].values():
            for pattern in patterns:
                with self.subTest(pattern):
                    self.assertTrue([*ROOT.glob(pattern)])

    def test_debs_and_rpms_have_each_program_and_unit(self) -> None:
        debian = "".join(
            path.read_text() for path in (ROOT / "debian").glob("*.install")
        ).split()
        (spec,) = (ROOT / "rpm").glob("*.spec")
        rpm = spec.read_text().partition("%files")[2].split()
        programs = PROJECT["project"]["scripts"]
        units = [path.name for path in (ETC / "systemd").iterdir()]
        for name, place, macro in (
            *((each, "usr/bin", "%{_bindir}") for each in programs),
            *(
                (each, "usr/lib/systemd/system", "%{_unitdir}")
                for each in units
            ),
            *(
                (each.name, "usr/lib/udev/rules.d", "%{_udevrulesdir}")
                for each in (ETC / "udev").iterdir()
            ),
        ):
            with self.subTest(name):
                self.assertEqual(1, debian.count(f"{place}/{name}"))
                self.assertEqual(1, rpm.count(f"{macro}/{name}"))

    def test_debs_have_each_manual(self) -> None:
        debian = "".join(
            path.read_text() for path in (ROOT / "debian").glob("*.install")
        ).split()
        text = (ROOT / "doc/source/conf.py").read_text()
        for section in (1, 8):
            names = {
                pathlib.Path(each).name.rpartition(".")[0]
                for each in debian
                if each.startswith(f"usr/share/man/man{section}/")
            }
            for name in names:
                with self.subTest(name):
                    self.assertIn(f'"{name}"', text)
