# SPDX-License-Identifier: Apache-2.0

"""The programs of a Kubernetes node, built from Go modules.

containerd, runc and the reference plug-ins of CNI are Debian's. Multus is a
module of its own: it does not compile with this release's kubelet API.

``python -m tests.testbed.kube.node_programs`` builds them.
"""

import pathlib
from typing import ClassVar

from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.kube import programs
from tests.testbed.kube import toolchain
from tests.testbed.progress import Progress

_HERE = pathlib.Path(__file__).parent


class NodePrograms:
    """Where the programs are, built or not.

    :param cache: the directory for downloads and builds.
    """

    #: Directory of a module here, to what is built of it.
    MODULES: ClassVar[dict[str, tuple[str, ...]]] = {
        "go_node": (
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubeadm",
            "k8s.io/kubernetes/cmd/kubectl",
            "k8s.io/kubernetes/cmd/kubelet",
        ),
        "go_multus": (
            "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus",
        ),
    }

    #: Debian packages that running needs, and measuring in a pod.
    PACKAGES = (
        "containerd",
        "containernetworking-plugins",
        "iperf3",
        "runc",
        "sockperf",
    )

    def __init__(self, cache: pathlib.Path) -> None:
        modules = [
            text
            for module in self.MODULES
            for text in toolchain.texts(_HERE / module)
        ]
        self.directory = toolchain.in_cache(
            cache, "kube-node", *modules, programs.version_flags()
        )

    def program(self, name: str) -> pathlib.Path:
        """Return a program.

        :param name: as in "kubelet".
        """
        return self.directory / name

    def prepare(self, logs: pathlib.Path, progress: Progress) -> None:
        """Install, download and build what is missing.

        :param logs: the directory that takes the logs of apt and of Go.
        :param progress: where to say what goes on.
        :raises errors.TestbedError: when something can't be had.
        """
        if packages.missing(self.PACKAGES):
            with progress.step("Debian packages"):
                packages.install(self.PACKAGES, logs / "apt.log")
        toolchain.make(
            self.directory,
            self._fill,
            what="kubelet, kubeadm, kubectl, controllers and Multus",
            logs=logs,
            progress=progress,
        )

    def _fill(self, go: toolchain.Go, result: pathlib.Path) -> None:
        for module, commands in self.MODULES.items():
            go.build(
                _HERE / module,
                *commands,
                to=result,
                linker_flags=programs.version_flags(),
            )


if __name__ == "__main__":
    directories = paths.Paths.from_environment()
    directories.make()
    NodePrograms(directories.cache).prepare(directories.log, Progress())
