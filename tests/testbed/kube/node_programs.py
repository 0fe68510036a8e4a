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

"""The programs of a Kubernetes node, built from Go modules.

containerd, runc and the reference plug-ins of CNI are Debian's. Multus is a
module of its own: it does not compile with this release's kubelet API.

``python -m tests.testbed.kube.node_programs`` builds them.
"""

import hashlib
import pathlib
import shutil
from typing import ClassVar

from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.kube import programs
from tests.testbed.kube import toolchain
from tests.testbed.progress import Progress
from tests.testbed.waiting import run_logged

_HERE = pathlib.Path(__file__).parent
#: Two busy cores take a quarter of it.
_BUILD_SECONDS = 3600.0


class NodePrograms:
    """Where the programs are, built or not.

    :param cache: the directory for downloads and builds.
    """

    #: Directory of a module here, to what is built of it.
    MODULES: ClassVar[dict[str, tuple[str, ...]]] = {
        "go_node": (
            "k8s.io/kubernetes/cmd/kube-scheduler",
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
        key = hashlib.sha256()
        for module in self.MODULES:
            for name in ("go.mod", "go.sum"):
                key.update((_HERE / module / name).read_bytes())
        key.update(toolchain.RELEASE.encode())
        self.directory = cache / f"kube-node-{key.hexdigest()[:12]}"

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
        if self.directory.is_dir():
            return
        log = logs / "go-node.log"
        with progress.step(f"kubelet, scheduler and Multus (log: {log})"):
            self._build(log)

    def _build(self, log: pathlib.Path) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with programs.locked(self.directory.with_suffix(".lock")):
            if self.directory.is_dir():
                return
            work = self.directory.with_suffix(".work")
            result = work / "result"
            result.mkdir(parents=True, exist_ok=True)
            variables = toolchain.environment(work)
            go = toolchain.fetch(work, variables, log)
            for name, commands in self.MODULES.items():
                module = work / name
                shutil.copytree(_HERE / name, module, dirs_exist_ok=True)
                run_logged(
                    (
                        *("nice", "-n15", str(go), "build"),
                        *("-C", str(module), "-mod=readonly", "-trimpath"),
                        f"-gcflags={programs.COMPILER_FLAGS}",
                        f"-ldflags={programs.version_flags()}",
                        *("-o", str(result), *commands),
                    ),
                    timeout=_BUILD_SECONDS,
                    environment=variables,
                    log=log,
                )
            result.rename(self.directory)
            shutil.rmtree(work)


if __name__ == "__main__":
    directories = paths.Paths.from_environment()
    directories.make()
    NodePrograms(directories.cache).prepare(directories.log, Progress())
