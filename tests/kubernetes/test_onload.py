# SPDX-License-Identifier: Apache-2.0

"""A real API server takes our patch, and says what it made of it."""

import copy
import json
from typing import Any

from kubernetes.client import AppsV1Api
from kubernetes.client import CoreV1Api

from sriov_rt.onload import plan
from sriov_rt.pods import pod
from tests.kubernetes import base

ENVIRONMENT = {
    "LD_PRELOAD": "/opt/onload/usr/lib64/libonload.so",
    "EF_POLL_USEC": "100000",
}

SPEC: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "containers": [
        {
            "name": "c",
            "image": "i",
            "env": [
                {"name": "A", "value": "1"},
                {"name": "EF_LD_PRELOAD", "value": "/tmp/evil.so"},
            ],
            "resources": {"limits": {"cpu": "1"}},
        },
        {"name": "sidecar", "image": "i"},
    ],
}


def plain(answer: Any) -> Any:
    """Return what the server said, and not what a model makes of it."""
    return json.loads(answer.data)


class PatchTest(base.KubernetesTestCase):
    """Nothing runs a pod here: it is the server that is asked."""

    def patch(self, given: Any) -> Any:
        return pod.patch(
            given,
            ENVIRONMENT,
            resource="amd.com/onload",
            network="fast",
            container="c",
            mount=plan.Mount("/opt/onload/lib", "/opt/sriov-rt/onload"),
        )

    def check(self, template: Any) -> None:
        first, second = template["spec"]["containers"]
        self.assertEqual(
            {"A": "1", **ENVIRONMENT},
            {each["name"]: each["value"] for each in first["env"]},
        )
        self.assertNotIn("env", second)
        for each in ("limits", "requests"):
            self.assertEqual("1", first["resources"][each]["amd.com/onload"])
        self.assertEqual("fast", template["metadata"]["labels"][pod.LABEL])
        (view,) = first["volumeMounts"]
        self.assertIs(True, view["readOnly"])
        (term,) = template["spec"]["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        self.assertNotIn("namespaceSelector", term)

    def test_a_deployment_is_patched(self) -> None:
        labels = {"app": "x"}
        where = ("x", "default")
        api = AppsV1Api(self.kube.admin())
        api.create_namespaced_deployment(
            "default",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "x"},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": SPEC,
                    },
                },
            },
        )
        self.addCleanup(api.delete_namespaced_deployment, *where)

        def read() -> Any:
            return plain(
                api.read_namespaced_deployment(*where, _preload_content=False)
            )

        # A list is a JSON patch for the client.
        ops = self.patch(read())
        api.patch_namespaced_deployment(*where, ops, dry_run="All")
        after = api.patch_namespaced_deployment(
            *where, ops, _preload_content=False
        )
        self.check(plain(after)["spec"]["template"])
        # With all the defaults that the server filled in.
        self.assertEqual([], self.patch(read()))

    def test_a_pod_is_created_as_it_would_be(self) -> None:
        given = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x"},
            "spec": copy.deepcopy(SPEC),
        }
        # What the controller manager would have made.
        api = CoreV1Api(self.kube.admin())
        account = {"metadata": {"name": "default"}}
        api.create_namespaced_service_account("default", account)
        wanted = pod.apply(given, self.patch(given))
        after = api.create_namespaced_pod(
            "default", wanted, dry_run="All", _preload_content=False
        )
        self.check(plain(after))
