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


"""A real API server takes our patch, and says what it made of it."""

import copy
import json

from sriov_rt.onload import plan
from sriov_rt.onload import pod
from tests.kubernetes import base

JSON_PATCH = "application/json-patch+json"
ENVIRONMENT = {
    "LD_PRELOAD": "/opt/onload/usr/lib64/libonload.so",
    "EF_POLL_USEC": "100000",
}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"

SPEC = {
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


class PatchTest(base.KubernetesTestCase):
    """Nothing runs a pod here: it is the server that is asked."""

    def patch(self, given):
        return pod.patch(
            given,
            ENVIRONMENT,
            resource="amd.com/onload",
            network="fast",
            container="c",
            mount=plan.Mount("/opt/onload/lib", "/opt/sriov-rt/onload"),
        )

    def check(self, template):
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
        self.assertEqual({}, term["namespaceSelector"])

    def test_a_deployment_is_patched(self):
        labels = {"app": "x"}
        path = f"{DEPLOYMENTS}/x"
        admin = self.kube.admin()
        admin.post(
            DEPLOYMENTS,
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
        self.addCleanup(admin.delete, path)
        ops = self.patch(admin.get(path))
        body = json.dumps(ops).encode()
        admin.call("PATCH", f"{path}?dryRun=All", body, JSON_PATCH)
        after = admin.call("PATCH", path, body, JSON_PATCH)
        self.check(after["spec"]["template"])
        # With all the defaults that the server filled in.
        self.assertEqual([], self.patch(admin.get(path)))

    def test_a_pod_is_created_as_it_would_be(self):
        given = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x"},
            "spec": copy.deepcopy(SPEC),
        }
        # What the controller manager would have made.
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        account = {"metadata": {"name": "default"}}
        self.kube.admin().post(accounts, account)
        wanted = pod.apply(given, self.patch(given))
        after = self.kube.admin().post(f"{PODS}?dryRun=All", wanted)
        self.check(after)
