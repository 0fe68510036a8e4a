# SPDX-License-Identifier: Apache-2.0

"""What all tests on a real control plane share."""

import pathlib
import typing
import unittest
from typing import Any

import yaml

from sriov_rt.magnum import addons
from tests.testbed import paths
from tests.testbed.kube import programs
from tests.testbed.kube.cluster import Kube
from tests.testbed.paths import Paths
from tests.testbed.progress import Progress

ADDONS = paths.CHECKOUT / "etc" / "kubernetes" / "addons"


def network_definitions() -> Any:
    """Return Multus's CRD, as it is shipped."""
    text = (ADDONS / "multus" / "multus.yaml").read_text()
    return next(
        each
        for each in yaml.safe_load_all(text)
        if each["kind"] == "CustomResourceDefinition"
    )


def objects(path: pathlib.Path) -> Any:
    """Return the objects of a file in the versions of the API server here."""
    text = path.read_text()
    release = programs.version("k8s.io/kubernetes")
    return yaml.safe_load_all(addons.for_kubernetes(text, release))


class KubernetesTestCase(unittest.TestCase):
    """A test case with a control plane of its own, empty at first."""

    kube: typing.ClassVar[Kube]

    @classmethod
    def setUpClass(cls) -> None:
        """Build what is missing and start the control plane."""
        super().setUpClass()
        cls.kube = Kube(Paths.from_environment())
        progress = Progress()
        cls.kube.prepare(progress)
        cls.addClassCleanup(cls.kube.stop)
        with progress.step("etcd and the API server"):
            cls.kube.start()

    def node(self, name: str) -> str:
        """Create a Node for this test alone, and return its name.

        :param name: its name.
        """
        self.kube.nodes.create(name)
        self.addCleanup(self.kube.nodes.delete, name)
        return name
