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

from sriov_rt.agent import metrics
from sriov_rt.cmd import device
from sriov_rt.cmd import faults
from sriov_rt.cmd import vif_restore
from sriov_rt.facts import certificate
from sriov_rt.host import port_counts
from sriov_rt.labels.merge import OWN_PREFIX
from sriov_rt.nic import tenancy
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


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pods that are deployed, those in values of charts included."""

    def look(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if value.get("kind") in ("DaemonSet", "Deployment"):
                yield value["spec"]["template"]["spec"]
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                yield from look(each)

    for path in sorted(ETC.rglob("*.y*ml")):
        for document in yaml.safe_load_all(path.read_text()):
            for each in look(document):
                yield str(path.relative_to(ROOT)), each


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

    def test_labels_that_are_selected_are_ours(self) -> None:
        source = (ROOT / "sriov_rt/labels/own.py").read_text()
        count = 0
        for path in sorted(ETC.rglob("*.y*ml")):
            text = path.read_text()
            for name in re.findall(rf"{re.escape(OWN_PREFIX)}([\w.-]+)", text):
                count += 1
                with self.subTest(path.name, label=name):
                    self.assertIn(f'"{name}"', source)
        self.assertGreater(count, 1)

    def test_a_binding_gives_its_own_role_to_its_own_account(self) -> None:
        roles = {x["metadata"]["name"]: x for _, x in of_kind("ClusterRole")}
        for path, each in of_kind("ClusterRoleBinding"):
            name = each["metadata"]["name"]
            with self.subTest(path, name=name):
                self.assertEqual(name, each["roleRef"]["name"])
                self.assertIn(name, roles)
                self.assertEqual(
                    {name}, {subject["name"] for subject in each["subjects"]}
                )
                for rule in roles[name]["rules"]:
                    for node in rule.get("resourceNames", ()):
                        # One copy a node, by "sed s/compute-1/$NODE/g".
                        self.assertTrue(name.endswith(f"-{node}"))

    def test_no_pod_has_a_token_that_it_does_not_use(self) -> None:
        without = {
            each["metadata"]["name"]
            for _, each in of_kind("ServiceAccount")
            if each.get("automountServiceAccountToken") is False
        }
        found = list(pods())
        self.assertGreater(len(found), 6)
        for path, each in found:
            with self.subTest(path):
                account = each.get("serviceAccountName")
                self.assertTrue(
                    each.get("automountServiceAccountToken") is False
                    or account in without
                    or account in API_USERS
                )

    def test_secrets_of_pods_are_not_for_everybody(self) -> None:
        for path, each in pods():
            for volume in each.get("volumes", ()):
                if "secret" in volume:
                    with self.subTest(path, volume=volume["name"]):
                        mode = volume["secret"]["defaultMode"]
                        self.assertEqual(0, mode & 0o337)

    def test_who_looks_for_holders_of_vfs_sees_the_nodes_processes(
        self,
    ) -> None:
        count = 0
        for path, each in pods():
            for container in each["containers"]:
                context = container.get("securityContext", {})
                added = context.get("capabilities", {}).get("add", ())
                if "SYS_PTRACE" in added:
                    count += 1
                    with self.subTest(path):
                        self.assertTrue(each.get("hostPID"))
                        self.assertTrue(each.get("hostNetwork"))
        self.assertGreater(count, 1)

    def test_records_are_the_nodes(self) -> None:
        """In a directory of the container they would end with it."""
        count = 0
        for path, each in pods():
            places = {
                volume["name"]: volume.get("hostPath", {}).get("path")
                for volume in each.get("volumes", ())
            }
            for container in each["containers"]:
                for mount in container.get("volumeMounts", ()):
                    if mount["mountPath"].startswith(RUN):
                        count += 1
                        with self.subTest(path):
                            self.assertEqual(
                                mount["mountPath"], places[mount["name"]]
                            )
        self.assertGreater(count, 0)


#: Accounts of who speaks to the API server.
API_USERS = {"multus"}


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

    def test_values_of_labels_are_those_of_our_metrics(self) -> None:
        """A word that no sample has selects nothing, and raises no alert."""
        text = "".join(
            path.read_text().replace('\\"', '"')
            for path in (
                ETC / "prometheus/sriov-rt.rules.yml",
                ETC / "grafana/sriov-rt.json",
            )
        )
        compared = re.findall(r'(\w+)(?:=~|!=|!~|=)"([^"$]+)"', text)
        self.assertGreater(len(compared), 10)
        for name, words in compared:
            for each in words.split("|"):
                with self.subTest(name, value=each):
                    self.assertIn(each, VALUES[name])

    def test_each_series_that_is_recorded_by_a_rule_is(self) -> None:
        hosts = (ETC / "prometheus/sriov-rt-hosts.rules.yml").read_text()
        (group,) = yaml.safe_load(hosts)["groups"]
        recorded = {
            each["record"]
            for each in (*self.rules, *group["rules"])
            if "record" in each
        }
        board = (ETC / "grafana/sriov-rt.json").read_text()
        text = json.dumps(self.rules) + board
        self.assertEqual(recorded, {*re.findall(r"sriov_rt:\w+:\w+", text)})

    def test_what_is_scraped_is_what_listens(self) -> None:
        proxy = (ETC / "prometheus/sriov-rt.nginx.conf").read_text()
        text = (ETC / "prometheus/sriov-rt.prometheus.yml").read_text()
        (job,) = yaml.safe_load(text)["scrape_configs"]
        self.assertIn(job["job_name"], VALUES["job"])
        (discovery,) = job["openstack_sd_configs"]
        self.assertEqual("https", job["scheme"])
        self.assertIn(f"listen {discovery['port']} ssl;", proxy)
        # Nobody is answered without a certificate of the monitoring's CA.
        self.assertIn("ssl_verify_client on;", proxy)
        port = {x.dest: x for x in metrics.METRICS_OPTS}["port"].default
        self.assertIn(f"proxy_pass http://127.0.0.1:{port};", proxy)
        names = {path.name for path in (ETC / "prometheus").glob("*.rules.*")}
        self.assertEqual(names, {*yaml.safe_load(text)["rule_files"]})

    def test_severities(self) -> None:
        for rule in self.rules:
            if "alert" in rule:
                with self.subTest(rule["alert"]):
                    severity = rule["labels"]["severity"]
                    self.assertIn(severity, ("critical", "warning"))


#: Values of labels that rules and panels compare with.
VALUES = {
    "intended": {"yes", "no", "unknown"},
    "job": {"sriov-rt"},
    "operation": {operation for operation, _ in port_counts.KNOWN},
    "result": {result for _, result in port_counts.KNOWN},
    "state": {*tenancy.State, "used", "free"},
}


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

    def test_a_wrong_configuration_is_not_tried_again(self) -> None:
        # Neutron need not be there to import that agent's.
        codes = {
            int(found)
            for place in ("agent", "neutron")
            for found in re.findall(
                r"(?m)^EXIT_CONFIGURATION = (\d+)$",
                (ROOT / "sriov_rt" / place / "process.py").read_text(),
            )
        }
        for name, unit in self.units():
            if unit["Type"] == "notify":
                with self.subTest(name):
                    prevents = unit["RestartPreventExitStatus"]
                    self.assertEqual(codes, {int(prevents)})

    def test_codes_that_are_no_failure_are_the_programs(self) -> None:
        found = {
            name: int(unit["SuccessExitStatus"].removesuffix(" SIGTERM"))
            for name, unit in self.units()
            if "SuccessExitStatus" in unit
        }
        self.assertEqual(CODES, found)
        units = dict(self.units())
        # Only a SIGINT has it put its tracer away.
        watch = units["sriov-rt-verify-watch.service"]
        self.assertEqual("SIGINT", watch["KillSignal"])

    def test_what_runs_once_has_time_for_a_nic_that_comes_back(self) -> None:
        for name, unit in self.units():
            if unit["Type"] == "oneshot":
                with self.subTest(name):
                    self.assertGreaterEqual(int(unit["TimeoutStartSec"]), 300)

    def test_nobody_else_may_write_what_units_make(self) -> None:
        for name, unit in self.units():
            for key in unit:
                if key.endswith("DirectoryMode"):
                    with self.subTest(name, key=key):
                        self.assertEqual(0, int(unit[key], 8) & 0o022)

    def test_a_units_state_is_where_its_program_has_it(self) -> None:
        found = {
            name: f"var/lib/{unit['StateDirectory']}"
            for name, unit in self.units()
            if "StateDirectory" in unit
        }
        self.assertEqual(
            {
                name: str(pathlib.PurePath(path).parent)
                for name, path in STATE.items()
            },
            found,
        )

    def test_users_of_units_are_made(self) -> None:
        text = (ETC / "sysusers.d/sriov-rt.conf").read_text()
        made = set(re.findall(r"(?m)^u (\S+) ", text))
        used = {unit.get("User", "root") for _, unit in self.units()}
        self.assertEqual(made, used - {"root"})

    def test_units_may_speak_to_whom_their_program_does(self) -> None:
        for name, unit in self.units():
            if "RestrictAddressFamilies" in unit:
                with self.subTest(name):
                    self.assertEqual(
                        {"AF_UNIX", *SPEAKS[name].split()},
                        set(unit["RestrictAddressFamilies"].split()),
                    )

    def test_timers_and_paths_go_on_and_start_what_is_there(self) -> None:
        for path in (ETC / "systemd").iterdir():
            text = path.read_text()
            if path.suffix in (".timer", ".path"):
                with self.subTest(path.name):
                    self.assertTrue(path.with_suffix(".service").exists())
                    self.assertRegex(
                        text, "(?m)^(OnUnitInactiveSec|PathExists)="
                    )

    def test_what_is_made_at_boot_is_roots(self) -> None:
        lines = (ETC / "tmpfiles.d/sriov-rt.conf").read_text().splitlines()
        found = [each.split() for each in lines if each[:1] not in ("", "#")]
        self.assertEqual([["d", RUN, "0755", "root", "root", "-"]], found)


#: Exit codes that are no failure of a unit.
CODES = {
    "sriov-rt-devices.service": device.EXIT_RESERVED,
    "sriov-rt-restore.service": vif_restore.EXIT_GUESTS,
    "sriov-rt-verify-watch.service": faults.EXIT_INTERRUPTED,
}

#: A file that the program of each unit keeps beyond the boot.
STATE = {
    "sriov-rt-agent.service": certificate.WITHDRAWAL_PATH,
    "sriov-rt-verify-watch.service": certificate.PATH,
}

#: Address families by whom a program speaks to: RabbitMQ and Keystone, the
#: kernel's links and events, neighbours of a port that it announces.
SPEAKS = {
    "sriov-rt-agent.service": "AF_INET AF_INET6 AF_NETLINK",
    "sriov-rt-devices.service": "AF_INET AF_INET6",
    "sriov-rt-neutron-agent.service": "AF_INET AF_INET6 AF_NETLINK AF_PACKET",
    "sriov-rt-restore.service": "AF_NETLINK AF_PACKET",
    "sriov-rt-vfs.service": "AF_NETLINK AF_PACKET",
}

#: What the program of each unit writes: records of VFs in /run, the last
#: known labels.
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
