# SPDX-License-Identifier: Apache-2.0

"""Programs that call hooks as KubeVirt does, built from Go modules.

``python -m tests.testbed.kubevirt.programs`` builds them. Modules that are
required somewhere and compiled nowhere have an empty one in their place, in
go/driver/absent; of two that KubeVirt's converter names and never calls, a
few declarations are in go/driver/virt-template-*.
"""

import dataclasses
import pathlib

from tests.testbed import paths
from tests.testbed.kube import toolchain
from tests.testbed.progress import Progress

_GO = pathlib.Path(__file__).parent / "go"


@dataclasses.dataclass(frozen=True)
class Program:
    """One program, built or not.

    :param name: its directory in go/.
    :param package: what is built; that directory by default.
    :param release: of Go; KubeVirt 1.9 wants 1.26 (its go.mod).
    """

    name: str
    package: str = "."
    release: str = toolchain.RELEASE

    def prepare(
        self, cache: pathlib.Path, logs: pathlib.Path, progress: Progress
    ) -> pathlib.Path:
        """Build it if need be, and return it.

        :param cache: the directory for downloads and builds.
        :param logs: the directory that takes the logs of apt and of Go.
        :param progress: where to say what goes on.
        :raises errors.TestbedError: when something can't be had or built.
        """
        found = toolchain.in_cache(
            cache,
            f"kubevirt-{self.name}",
            self.package,
            *toolchain.texts(_GO / self.name),
            release=self.release,
        )
        made = toolchain.make(
            found,
            self._fill,
            what=f"KubeVirt's {self.name}",
            logs=logs,
            progress=progress,
            release=self.release,
        )
        return made / self.name

    def _fill(self, go: toolchain.Go, result: pathlib.Path) -> None:
        go.build(_GO / self.name, self.package, to=result / self.name)


#: KubeVirt 1.9's pipeline of domain hooks, its caller of node hooks, and its
#: converter.
DRIVER = Program("driver", release="go1.26.0")
#: libvirtxml of the same release, alone.
ROUNDTRIP = Program("roundtrip")
#: The shim of KubeVirt 1.5.
SHIM = Program("shim", "kubevirt.io/kubevirt/cmd/sidecars")


if __name__ == "__main__":
    directories = paths.Paths.from_environment()
    directories.make()
    for program in (ROUNDTRIP, DRIVER, SHIM):
        program.prepare(directories.cache, directories.log, Progress())
