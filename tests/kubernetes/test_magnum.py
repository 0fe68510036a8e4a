# SPDX-License-Identifier: Apache-2.0

"""The cluster driver with a real Helm and a real management cluster.

The API server has Cluster API's own kinds. The chart is a small one with
capi-helm's value names. Nova, Neutron and Placement are played by the cases,
and in the run of every change the controllers are, too.
"""

import pathlib
import unittest
from typing import ClassVar

from tests import releases
from tests.magnum import releases as magnum
from tests.periodic import periodic
from tests.testbed import paths
from tests.testbed.kube import cluster_api
from tests.testbed.kube import cluster_api_programs
from tests.testbed.kube.cluster import Kube
from tests.testbed.progress import Progress


class ManagementTestCase(unittest.TestCase):
    """A management cluster of its own."""

    place: ClassVar[paths.Paths]
    kube: ClassVar[Kube]
    helm: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        found = paths.Paths.from_environment()
        # Two workers may have one each.
        state = found.state / "magnum" / cls.__name__
        cls.place = paths.Paths(found.cache, state)
        cls.kube = Kube(cls.place)
        progress = Progress()
        cls.kube.prepare(progress)
        cls.helm = cluster_api_programs.helm(cls.kube.place, progress)
        cls.addClassCleanup(cls.kube.stop)
        cls.kube.start()
        cluster_api.install_crds(cls.kube.admin(), cls.kube.place)

    def _run(self, *tests: str, **environment: str) -> None:
        code, output = magnum.run(
            releases.NEWEST,
            *tests,
            environment={
                "SRIOV_RT_TEST_KUBECONFIG": str(self.kube.kubeconfig),
                "SRIOV_RT_TEST_HELM": str(self.helm / "helm"),
                "SRIOV_RT_TEST_CHART": str(cluster_api_programs.CHART),
                # They would replace the CA of the kubeconfig.
                "REQUESTS_CA_BUNDLE": "",
                "CURL_CA_BUNDLE": "",
                **environment,
            },
        )
        self.assertEqual(0, code, output[-20000:])
        self.assertRegex(output, r"\nRan [1-9][0-9]* tests? in [^\n]+\nOK\n")


class ManagementTest(ManagementTestCase):
    """The kinds alone: the cases play the controllers."""

    def test_the_driver(self) -> None:
        self._run("test_real")


# The controllers are built for minutes.
@periodic
class ControllersTest(ManagementTestCase):
    """Cluster API's controllers, and a second API server to build."""

    workload: ClassVar[Kube]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        programs = cluster_api_programs.controllers(cls.kube.place, Progress())
        controllers = cluster_api.Controllers(cls.kube, programs)
        cls.addClassCleanup(controllers.stop)
        controllers.start()
        state = cls.place.state / "workload"
        cls.workload = Kube(paths.Paths(cls.place.cache, state))
        cls.addClassCleanup(cls.workload.stop)
        cls.workload.start()

    def test_the_nodes_user_data_and_the_add_ons(self) -> None:
        self._run(
            "test_controllers",
            SRIOV_RT_TEST_WORKLOAD=str(self.workload.kubeconfig),
            SRIOV_RT_TEST_AUTHORITY=str(
                self.workload.server.authority.certificate
            ),
        )
