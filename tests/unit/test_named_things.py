# SPDX-License-Identifier: Apache-2.0

"""Things named in sentences and pages exist, so that remedies are possible."""

import argparse
import ast
import functools
import importlib.util
import pathlib
import re
import tomllib
import unittest
from collections.abc import Iterator

from oslo_config import cfg

from sriov_rt import opts
from sriov_rt.cmd import runner
from sriov_rt.cmd import shell
from sriov_rt.facts import PARTS
from sriov_rt.request import grammar
from tests.unit.documented_host import ROOT

PAGES = (ROOT / "README.rst", *sorted((ROOT / "doc/source").rglob("*.rst")))

#: Groups and options of other projects that we name.
OTHERS = {
    "DEFAULT": "host transport_url compute_driver force_config_drive "
    "rpc_response_timeout",
    "agent": "extensions",
    "capi_helm": "kubeconfig_file",
    "cinder_client": "region_name",
    "compute": "cpu_dedicated_set cpu_shared_set "
    "resource_provider_association_refresh",
    "filter_scheduler": "available_filters enabled_filters pci_in_placement "
    "build_failure_weight_multiplier weight_classes",
    "libvirt": "cpu_power_management cpu_power_management_strategy "
    "cpu_power_governor_high cpu_power_governor_low virt_type",
    "ml2": "mechanism_drivers",
    "nova_client": "region_name",
    "oslo_concurrency": "lock_path",
    "keystone_authtoken": "token_cache_time",
    "oslo_messaging_notifications": "driver transport_url",
    "oslo_messaging_rabbit": "ssl heartbeat_timeout_threshold",
    "oslo_reports": "log_dir",
    "ovn": "ovn_metadata_enabled",
    "pci": "device_spec report_in_placement",
    "scheduler": "enable_isolated_aggregate_filtering max_attempts",
    "sriov_nic": "physical_device_mappings",
}

#: Words of a sentence that follow a group's name.
WORDS = {"and", "expected", "has", "in", "is", "names", "of", "or", "the"}

#: Words in brackets in logs and documents that are not groups.
NO_GROUPS = {"PATTERN", "Slice", "latency_withdrawn", "madvise", "neutron"}

#: Sysctls, and the file of the kernel that defines each.
SYSCTLS = {
    "kernel.nmi_watchdog": "kernel/watchdog.c",
    "kernel.sched_rt_runtime_us": "kernel/sched/rt.c",
    "kernel.timer_migration": "kernel/time/timer.c",
    "kernel.watchdog": "kernel/watchdog.c",
    "kernel.watchdog_cpumask": "kernel/watchdog.c",
}

#: Modules of sentences with a remedy each.
SENTENCES = {
    "sriov_rt/decide/occupancy.py",
    "sriov_rt/guest/sentences.py",
    "sriov_rt/onload/sentences.py",
    "sriov_rt/pods/sentences.py",
    "sriov_rt/reason.py",
}

#: Names in them that the code has nowhere else, by whose they are.
THEIRS = {
    "KubeVirt's VMI": "autoattachSerialConsole dedicatedCpuPlacement "
    "dedicatedIOThread isolateEmulatorThread scheduling.nodeSelector "
    "spec.domain.cpu.dedicatedCpuPlacement "
    "spec.domain.cpu.isolateEmulatorThread spec.domain.ioThreadsPolicy",
    "Kubernetes'": "DaemonSet reservedSystemCPUs resources.limits "
    "resources.limits.memory",
    "Kata's": "cold_plug_vfio",
    "Nova's": "hw_viommu_model report_in_placement viommu_model",
    "VPP's": "startup.conf",
    "systemd's": "CPUAffinity",
    "people's": "AF_XDP InfiniBand vNIC",
    "the kernel's": "constant_tsc nonstop_tsc /proc/irq/X/smp_affinity_list "
    "/sys/devices/system/cpu/cpuX/online",
    "Onload's": "/sys/module/sfc_resource/afxdp/register",
}

#: Programs that remedies run.
PROGRAMS = {
    *("cpupower", "driverctl", "echo", "ethtool", "ip", "kubectl"),
    *(
        "onload_tool",
        "openstack",
        "ovs-vsctl",
        "sriov-rt",
        "swapoff",
        "sysctl",
        "systemctl",
    ),
    *("pgrep", "taskset", "virsh"),
}

#: Tables of the documentation's own examples.
NO_FACTS = {"kernel.arguments", "kernel.removed", "kernel.py"}

_OPTION = re.compile(r"\[(\w+)\] (\w+)")
_DOTTED = re.compile(r"\b(?:kernel|vm|fs)\.[a-z_0-9]+")
_QUOTED = re.compile(r"'sriov-rt ([^']+)'")
_LITERAL = re.compile(r"``([^`]+)``")
_PLACEHOLDER = "X"


def texts(path: pathlib.Path) -> Iterator[str]:
    """Yield the texts of a module, without its docstrings.

    Values that are filled in are replaced by a placeholder.
    """
    tree = ast.parse(path.read_text())
    parts = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(each) for each in node.values}
            yield "".join(
                str(each.value)
                if isinstance(each, ast.Constant)
                else _PLACEHOLDER
                for each in node.values
            )
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in parts
        ):
            yield node.value


@functools.cache
def sentences() -> tuple[tuple[str, str], ...]:
    """Return each text of the package, and the module that has it."""
    return tuple(
        (str(path.relative_to(ROOT)), " ".join(text.split()))
        for path in sorted((ROOT / "sriov_rt").rglob("*.py"))
        for text in texts(path)
    )


@functools.cache
def literals() -> tuple[tuple[str, str], ...]:
    """Return each inline literal of the pages, and the page."""
    return tuple(
        (str(page.relative_to(ROOT)), " ".join(found.split()))
        for page in PAGES
        for found in _LITERAL.findall(page.read_text())
    )


@functools.cache
def options() -> dict[str, dict[str, cfg.Opt]]:
    """Return our options by their group."""
    found: dict[str, dict[str, cfg.Opt]] = {}
    for listing in (
        opts.list_opts(),
        opts.list_nova_opts(),
        opts.list_neutron_opts(),
        opts.list_magnum_opts(),
    ):
        for group, listed in listing:
            by_name = found.setdefault(group or "DEFAULT", {})
            by_name |= {each.dest: each for each in listed}
    return found


@functools.cache
def parser(name: str) -> argparse.ArgumentParser:
    """Return the arguments of one of our commands."""
    made = argparse.ArgumentParser(name, add_help=False)
    place = shell.COMMANDS[name]
    runner.load(place)().configure(made)
    return made


class OptionsTest(unittest.TestCase):
    def check(self, where: str, text: str) -> None:
        for group, name in _OPTION.findall(text):
            ours = options().get(group, {})
            filled_in = _PLACEHOLDER in group + name
            if name in WORDS or group in NO_GROUPS or filled_in:
                continue
            with self.subTest(where, option=f"[{group}] {name}"):
                self.assertIn(name, {*ours, *OTHERS.get(group, "").split()})

    def test_each_that_a_sentence_names_is_there(self) -> None:
        for where, text in sentences():
            self.check(where, text)

    def test_each_that_a_page_names_is_there(self) -> None:
        for where, text in literals():
            self.check(where, text)

    def test_defaults_in_brackets_are_the_options(self) -> None:
        """``[agent] observe_interval`` (10 s) has a default of 10."""
        count = 0
        for page in PAGES:
            text = " ".join(page.read_text().split())
            for group, name, number in re.findall(
                r"``\[(\w+)\] (\w+)`` \((\d+) s\)", text
            ):
                if name not in options().get(group, {}):
                    continue
                count += 1
                with self.subTest(str(page), option=f"[{group}] {name}"):
                    self.assertEqual(
                        float(number), options()[group][name].default
                    )
        self.assertGreater(count, 5)


class KernelTest(unittest.TestCase):
    def test_each_name_with_a_dot_is_a_sysctl_or_a_fact(self) -> None:
        facts = {
            f"{part}.{name}"
            for part, cls in PARTS.items()
            for name in cls.__dataclass_fields__
        }
        known = SYSCTLS.keys() | facts | NO_FACTS
        for where, text in (*sentences(), *literals()):
            for name in _DOTTED.findall(text):
                with self.subTest(where, name=name):
                    self.assertIn(name, known)


class CommandsTest(unittest.TestCase):
    def check(self, where: str, text: str) -> None:
        """Check the verb and the flags of a command."""
        words = text.split("|")[0].replace("\u2026", " ").split()
        if not words or words[0] in ("help", "complete", "cpus"):
            return
        if words[0].startswith("-"):
            return
        with self.subTest(where, command=text):
            names = [
                each
                for each in shell.COMMANDS
                if words[: len(each.split())] == each.split()
            ]
            if not names:
                plain = [x for x in words if re.fullmatch("[a-z-]+", x)]
                self.assertTrue(
                    any(
                        each.split()[: len(plain)] == plain
                        for each in shell.COMMANDS
                    ),
                    "there is no such command",
                )
                return
            known = parser(max(names, key=len)).format_help()
            for flag in words:
                if flag.startswith("--") and flag.partition("=")[0] not in (
                    "--help",
                    "--json",
                ):
                    self.assertIn(flag.partition("=")[0], known)

    def test_each_that_a_sentence_names_is_there(self) -> None:
        for where, text in sentences():
            for command in _QUOTED.findall(text):
                self.check(where, command)

    def test_each_that_a_page_names_is_there(self) -> None:
        for where, text in literals():
            if text.startswith("sriov-rt "):
                self.check(where, text.removeprefix("sriov-rt "))


class RemediesTest(unittest.TestCase):
    NAMES = re.compile(
        r"(?:/[\w.-]+)+|\w+(?==)|\b[a-zA-Z0-9]+(?:[_.]\w+)+"
        r"|\b[A-Za-z]*[a-z][A-Z]\w+"
    )

    def test_each_name_in_a_sentence_is_the_codes_or_theirs(self) -> None:
        """A boot argument, file, option or key that is misspelt is neither."""
        known = " ".join(
            text for where, text in sentences() if where not in SENTENCES
        )
        theirs = set(" ".join(THEIRS.values()).split())
        count = 0
        for where, text in sentences():
            if where not in SENTENCES or " " not in text:
                continue
            plain = re.sub(r"\{\w*\}", _PLACEHOLDER, text)
            for found in self.NAMES.findall(plain):
                name = re.sub(r"(?<=/)N(?=/)|(?<=cpu)N(?=/)", "X", found)
                name = name.rstrip(".")
                count += 1
                path = re.escape(name.lstrip("/"))
                if name not in theirs and "X_" not in name:
                    with self.subTest(where, name=name):
                        self.assertRegex(known, rf"(?<!\w){path}(?!\w)")
        self.assertGreater(count, 200)

    def test_each_program_is_one_that_a_host_has(self) -> None:
        for where, text in sentences():
            if where in SENTENCES:
                for found in re.findall(r"(?<!\w)'([a-z_-]+) [^' ]", text):
                    with self.subTest(where, text=text):
                        self.assertIn(found, PROGRAMS)


class ExtrasTest(unittest.TestCase):
    def test_each_extra_of_the_package_is_there(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        known = project["project"]["optional-dependencies"]
        count = 0
        for where, text in (*sentences(), *literals()):
            for found in re.findall(r"sriov-rt\[([a-z,]+)\]", text):
                for each in found.split(","):
                    count += 1
                    with self.subTest(where, extra=each):
                        self.assertIn(each, known)
        self.assertGreater(count, 5)


class PagesTest(unittest.TestCase):
    def test_each_extra_spec_is_in_the_grammar(self) -> None:
        for where, text in (*sentences(), *literals()):
            for name in re.findall(r"(?<!<)\bsriov_rt:([a-z_]+)\b(?!:)", text):
                with self.subTest(where, name=name):
                    self.assertIn(name, grammar.KEYS)

    def test_each_path_of_the_tree_is_there(self) -> None:
        for where, text in literals():
            if re.fullmatch(
                r"(?:etc|sriov_rt|tests|tools|doc)/[\w./-]+", text
            ):
                if text == "sriov_rt/cmd/cpus.py":
                    continue  # the recipe's
                with self.subTest(where, path=text):
                    self.assertTrue((ROOT / text).exists())

    def test_each_unit_is_there(self) -> None:
        units = {each.name for each in (ROOT / "etc/systemd").iterdir()}
        for where, text in (*sentences(), *literals()):
            for name in re.findall(
                r"\b(sriov-rt-[a-z-]+\.(?:service|timer))", text
            ):
                with self.subTest(where, unit=name):
                    self.assertIn(name, units)

    def test_each_module_is_there(self) -> None:
        for where, text in literals():
            if re.fullmatch(r"(?:python3 -m )?tests\.[a-z_.]+", text):
                name = text.rpartition(" ")[2]
                with self.subTest(where, module=name):
                    self.assertIsNotNone(importlib.util.find_spec(name))
