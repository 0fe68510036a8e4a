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


"""Programs that call hooks as KubeVirt does, built from Go modules.

``python -m tests.testbed.kubevirt.programs`` builds them. Modules that are
required somewhere and compiled nowhere have an empty one in their place, in
go/driver/absent; of two that KubeVirt's converter names and never calls, a
few declarations are in go/driver/virt-template-*.
"""

import dataclasses
import hashlib
import pathlib
import shutil

from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.kube import toolchain
from tests.testbed.kube.programs import locked
from tests.testbed.progress import Progress
from tests.testbed.waiting import run_logged

_GO = pathlib.Path(__file__).parent / "go"
#: Two busy cores take a tenth of it.
_BUILD_SECONDS = 3600.0


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

    def path(self, cache: pathlib.Path) -> pathlib.Path:
        """Return where it is, named after all that decides what is built.

        :param cache: the directory for downloads and builds.
        """
        key = hashlib.sha256(f"{self.package} {self.release}".encode())
        for each in sorted((_GO / self.name).rglob("*")):
            if each.is_file():
                key.update(each.read_bytes())
        return cache / f"kubevirt-{self.name}-{key.hexdigest()[:12]}"

    def prepare(
        self, cache: pathlib.Path, logs: pathlib.Path, progress: Progress
    ) -> pathlib.Path:
        """Build it if need be, and return it.

        :param logs: the directory that takes the logs of apt and of Go.
        :param progress: where to say what goes on.
        :raises errors.TestbedError: when something can't be had or built.
        """
        built = self.path(cache)
        if built.exists():
            return built
        if toolchain.installed() is None:
            packages.install(("golang-go",), logs / "apt.log")
        log = logs / "go.log"
        cache.mkdir(parents=True, exist_ok=True)
        with (
            progress.step(f"KubeVirt's {self.name} (log: {log})"),
            locked(built.with_suffix(".lock")),
        ):
            if not built.exists():
                self._build(built, log)
        return built

    def _build(self, built: pathlib.Path, log: pathlib.Path) -> None:
        work = built.with_suffix(".work")
        work.mkdir(exist_ok=True)
        variables = toolchain.environment(work)
        go = toolchain.fetch(work, variables, log, self.release)
        module = work / "module"
        shutil.copytree(_GO / self.name, module, dirs_exist_ok=True)
        result = work / self.name
        run_logged(
            (
                *("nice", "-n15", str(go), "build", "-C", str(module)),
                *("-mod=readonly", "-trimpath", "-gcflags=all=-dwarf=false"),
                *("-ldflags=-s -w", "-o", str(result), self.package),
            ),
            timeout=_BUILD_SECONDS,
            environment=variables,
            log=log,
        )
        result.rename(built)
        shutil.rmtree(work)


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
