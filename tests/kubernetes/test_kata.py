# SPDX-License-Identifier: Apache-2.0

"""The policy of Kata's add-on, judged by a real API server."""

import typing
from typing import Any

from kubernetes.client import ApiException
from kubernetes.client import CoreV1Api

from tests.kubernetes import base
from tests.testbed.waiting import wait_for

PAGES = {"hugepages-2Mi": "4Gi", "memory": "2Gi", "cpu": "2"}


class KataTest(base.KubernetesTestCase):
    core: typing.ClassVar[CoreV1Api]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.core = CoreV1Api(cls.kube.admin())
        for name in ("runtimeclass.yaml", "policy.yaml"):
            cls.kube.apply(*base.objects(base.ADDONS / "kata" / name))
        account = {"metadata": {"name": "default"}}
        cls.core.create_namespaced_service_account("default", account)
        wait_for(
            "the policy is in force",
            lambda: cls.refusal({"memory": "2Gi"}) is not None,
            timeout=60,
        )

    @classmethod
    def refusal(cls, *limits: dict[str, str], **spec: Any) -> str | None:
        """Return why a pod is refused; None if it is not.

        :param limits: of each container.
        """
        pod = {
            "metadata": {"generateName": "rt-"},
            "spec": {
                "runtimeClassName": "kata-rt",
                "containers": [
                    {
                        "name": f"c{index}",
                        "image": "x",
                        "resources": {"limits": each} if each else {},
                    }
                    for index, each in enumerate(limits)
                ],
                **spec,
            },
        }
        try:
            cls.core.create_namespaced_pod("default", pod, dry_run="All")
        except ApiException as error:
            return str(error.body)
        return None

    def test_a_sandbox_without_huge_pages_is_refused(self) -> None:
        cases: list[list[dict[str, str]]] = [[{}], [{"memory": "2Gi"}, {}]]
        for limits in cases:
            said = self.refusal(*limits)
            self.assertIn("has its memory in huge pages", str(said))

    def test_one_that_requests_them_is_not(self) -> None:
        self.assertIsNone(self.refusal(PAGES))
        self.assertIsNone(self.refusal({"memory": "1Gi"}, PAGES))

    def test_pods_of_other_classes_are_not_looked_at(self) -> None:
        self.assertIsNone(self.refusal({}, runtimeClassName=None))
