# SPDX-License-Identifier: Apache-2.0

"""OpenStack-Helm's values as Helm and a real API server take them.

Its charts are in no package index. Their template for extraObjects is two
lines, which a chart of the test has; what of our values goes into other
templates is read here, and was rendered by hand (see the page).
"""

import pathlib
import subprocess
import tempfile
import typing
from typing import Any

import yaml
from kubernetes.client import AppsV1Api

from sriov_rt.cmd import upgrade_checks
from tests.kubernetes import base
from tests.testbed import paths
from tests.testbed.kube import cluster_api_programs
from tests.testbed.progress import Progress

SHIPPED = paths.CHECKOUT / "etc/openstack-helm"

CHART = """\
apiVersion: v2
name: extra
version: 1.0.0
"""

#: What the charts' own values have, as far as our objects name it.
VALUES = """\
labels:
  agent:
    compute: {node_selector_key: compute, node_selector_value: enabled}
  sriov: {node_selector_key: sriov, node_selector_value: enabled}
"""

TEMPLATE = """\
{{ range .Values.extraObjects }}
---
{{ tpl (toYaml .) $ }}
{{ end }}
"""

AGENTS = ("sriov-rt-agent", "sriov-rt-neutron-agent")


class OpenStackHelmTest(base.KubernetesTestCase):
    """The DaemonSets of the agents."""

    made: typing.ClassVar[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        chart = pathlib.Path(scratch)
        (chart / "templates").mkdir()
        (chart / "Chart.yaml").write_text(CHART)
        (chart / "values.yaml").write_text(VALUES)
        (chart / "templates/extra.yaml").write_text(TEMPLATE)
        helm = cluster_api_programs.helm(cls.kube.place, Progress()) / "helm"
        apps = AppsV1Api(cls.kube.admin())
        cls.made = {}
        for name in ("nova", "neutron"):
            done = subprocess.run(
                (
                    *(str(helm), "template", name, str(chart)),
                    *("--values", str(SHIPPED / f"{name}.yaml")),
                ),
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            )
            (found,) = filter(None, yaml.safe_load_all(done.stdout))
            cls.made[found["metadata"]["name"]] = (
                apps.create_namespaced_daemon_set(
                    "default",
                    found,
                    dry_run="All",
                    # A key that Kubernetes does not have is an error.
                    field_validation="Strict",
                )
            )

    def pod(self, name: str) -> Any:
        """Return the spec of an agent's pods, as the API server has it."""
        return self.made[name].spec.template.spec

    def test_they_see_the_host(self) -> None:
        for name in AGENTS:
            pod = self.pod(name)
            self.assertTrue(pod.host_pid)
            self.assertTrue(pod.host_network)
            self.assertFalse(pod.automount_service_account_token)
            paths_of = {
                each.name: each.host_path.path
                for each in pod.volumes
                if each.host_path is not None
            }
            self.assertEqual("/run", paths_of["run"])

    def test_each_has_the_capabilities_of_its_unit(self) -> None:
        for name in AGENTS:
            unit = paths.CHECKOUT / f"etc/systemd/{name}.service"
            needed = upgrade_checks.capabilities(
                "CapabilityBoundingSet", (unit.read_text(),)
            )
            (container,) = self.pod(name).containers
            (bounding,) = (
                each.partition("=")[2].split(",")
                for each in container.command
                if each.startswith("--bounding-set=")
            )
            self.assertEqual("-all", bounding[0])
            self.assertEqual(
                needed, {f"CAP_{each[1:].upper()}" for each in bounding[1:]}
            )
            self.assertIn("--no-new-privs", container.command)

    def test_the_filter_is_known_and_in_its_place(self) -> None:
        values = yaml.safe_load((SHIPPED / "nova.yaml").read_text())
        section = values["conf"]["nova"]["filter_scheduler"]
        # The chart writes a line for each value of this type alone.
        self.assertEqual("multistring", section["available_filters"]["type"])
        judged = upgrade_checks.filters(
            upgrade_checks.Filters(
                tuple(section["enabled_filters"]["values"]),
                tuple(section["available_filters"]["values"]),
            )
        )
        self.assertEqual((0, None), (judged.code.value, judged.details))
