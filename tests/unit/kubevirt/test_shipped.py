# SPDX-License-Identifier: Apache-2.0

"""What etc/kubevirt has fits together, and what the code has."""

import json
import pathlib
import re
import tomllib
import unittest

import yaml

from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt import node_hook
from sriov_rt.kubevirt import vmi as vmis
from tests.unit.documented_host import ROOT

ETC = ROOT / "etc/kubevirt"
PLUGINS = ("plugin.yaml", "plugin-1.10.yaml")
FILES = (*PLUGINS, "sidecar.yaml", "allow-list.yaml")
NAMESPACES = re.compile(r"namespace in (\[[^]]*\])", re.IGNORECASE)


def load(name):
    return list(yaml.safe_load_all((ETC / name).read_text()))


class ShippedTest(unittest.TestCase):
    def each_plugin(self):
        """Yield the Plugin of each release."""
        for name in PLUGINS:
            (plugin,) = load(name)
            with self.subTest(file=name):
                yield plugin

    def test_the_sockets_are_those_of_the_programs(self):
        for plugin in self.each_plugin():
            (hook,) = plugin["spec"]["domainHooks"]
            self.assertEqual(
                contract.DOMAIN_SOCKET, hook["sidecar"]["socketPath"]
            )
            self.assertEqual(contract.PLUGIN, plugin["metadata"]["name"])
            for each in plugin["spec"]["nodeHooks"]:
                self.assertEqual(contract.NODE_SOCKET, each["socket"])

    def test_no_condition_is_evaluated_by_other_names_than_it_has(self):
        """What virt-handler cannot compile stops every VMI of a cluster."""
        for plugin in self.each_plugin():
            self.assertNotIn("condition", plugin["spec"])
            (domain,) = plugin["spec"]["domainHooks"]
            start, _ = plugin["spec"]["nodeHooks"]
            self.assertIn("vmi.Namespace", domain["condition"])
        self.assertEqual(domain["condition"], start["condition"])
        (of_19,) = load("plugin.yaml")
        start, _ = of_19["spec"]["nodeHooks"]
        self.assertIn("vmi.metadata.namespace", start["condition"])

    def test_one_list_of_namespaces_in_all_files(self):
        found = [
            NAMESPACES.findall((ETC / name).read_text()) for name in FILES
        ]
        self.assertEqual([3, 3, 1, 1], list(map(len, found)))
        self.assertEqual(1, len({each for some in found for each in some}))

    def test_the_prefix_of_annotations(self):
        for name in FILES:
            text = (ETC / name).read_text()
            self.assertEqual(
                {vmis.PREFIX}, set(re.findall(r"sriov-rt\.[\w.]+/", text))
            )

    def test_the_policies_that_the_plugin_names(self):
        names = {
            each["metadata"]["name"]
            for name in ("sidecar.yaml", "allow-list.yaml")
            for each in load(name)
        }
        for plugin in self.each_plugin():
            named = {
                each["name"]
                for key in (
                    "mutatingAdmissionPolicies",
                    "validatingAdmissionPolicies",
                )
                for each in plugin["spec"][key]
            }
            self.assertEqual(names, named)

    def test_a_cleaning_that_fails_keeps_no_vmi_from_ending(self):
        for plugin in self.each_plugin():
            start, stop = plugin["spec"]["nodeHooks"]
            self.assertEqual("Fail", start["failureStrategy"])
            self.assertEqual(node_hook.START, {*start["permittedHooks"]})
            self.assertEqual([node_hook.STOP], stop["permittedHooks"])
            self.assertEqual("Ignore", stop["failureStrategy"])
            # Annotations may be gone by then, and what is embedded in a
            # structure has no name that both evaluators know.
            self.assertRegex(
                stop["condition"].lower(), r"^vmi\.\S*namespace in \S+$"
            )

    def test_no_profile_of_the_node_keeps_the_node_hook_from_processes(self):
        """AppArmor's default hides /proc/PID/fd and makes /sys read-only."""
        pod = load("node-hook.yaml")[1]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        context = container["securityContext"]
        # It does to VFs what the unit does that makes them.
        unit = (ROOT / "etc/systemd/sriov-rt-vfs.service").read_text()
        self.assertEqual(
            {f"CAP_{each}" for each in context["capabilities"]["add"]},
            set(re.findall(r"CAP_\w+", unit.split("BoundingSet=")[1])),
        )
        self.assertEqual({"type": "Unconfined"}, context["appArmorProfile"])
        self.assertEqual({"type": "spc_t"}, context["seLinuxOptions"])

    def test_the_sidecar_keeps_the_pod_guaranteed(self):
        text = (ETC / "sidecar.yaml").read_text()
        limits, requests = re.findall(
            r'"(?:limits|requests)": (\{[^}]*\})', text
        )
        self.assertEqual(limits, requests)
        directory = pathlib.PurePath(contract.DOMAIN_SOCKET).parent
        self.assertIn(f'"mountPath": "{directory}"', text)
        self.assertIn(f'"subPath": "{contract.PLUGIN}"', text)

    def test_the_node_hook_mounts_what_it_opens(self):
        pod = load("node-hook.yaml")[1]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        mounts = {m["name"]: m for m in container["volumeMounts"]}
        volumes = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]}
        self.assertEqual(
            volumes, {name: m["mountPath"] for name, m in mounts.items()}
        )
        for path, written in (
            (contract.NODE_SOCKET, True),
            (contract.POD_RESOURCES_SOCKET, False),
            (f"{contract.SRIOV_CNI_DIRECTORY}/x", False),
            ("/run/sriov-rt/vfs/x", True),
            ("/sys/bus/pci", True),
        ):
            with self.subTest(path=path):
                (mount,) = (
                    each
                    for each in mounts.values()
                    if path.startswith(f"{each['mountPath']}/")
                )
                self.assertEqual(written, not mount.get("readOnly"))

    def test_the_vm_of_the_documentation_asks_for_what_there_is(self):
        (vm,) = load("vm.yaml")
        template = vm["spec"]["template"]
        instance = {
            "metadata": {
                **template["metadata"],
                "name": "rt",
                "namespace": "realtime",
                "uid": "5f6a0e3e-6f0c-4f5e-9f53-0c6a3d1d1f5e",
            },
            "spec": template["spec"],
        }
        found = vmis.parse(json.dumps(instance).encode())
        self.assertTrue(found.request.realtime)
        self.assertTrue(found.is_realtime)
        self.assertEqual(("fast",), found.interfaces)

    def test_the_images_have_what_the_extra_has(self):
        text = (ETC / "Containerfile").read_text()
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        extra = project["project"]["optional-dependencies"]["kubevirt"]
        for each in extra:
            self.assertIn(each.partition(">")[0], text)
