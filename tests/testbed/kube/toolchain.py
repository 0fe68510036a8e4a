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

"""The Go toolchain that builds Kubernetes, from the Go module proxy.

Debian 12's Go 1.19 is too old for Kubernetes 1.34 and NFD 0.18, but it can
fetch modules, and Go's releases are modules too. Go checks them against
its checksum database, as it does all that it downloads. So the compiler is
the same on every machine, whatever Go is installed there.
"""

import os
import pathlib
import platform
import shutil
import stat
from collections.abc import Mapping

from tests.testbed import errors
from tests.testbed.waiting import run_logged

#: A release of Go; NFD 0.18.3 wants 1.25 at least (its go.mod).
RELEASE = "go1.25.14"

#: What Go calls the machines of platform.machine().
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: Where Go is looked for when it isn't on the PATH.
_USUAL_PLACE = "/usr/local/go/bin"
#: Variables that would change what is built, or what builds it.
_FOREIGN = ("GOROOT", "GOBIN", "GOEXPERIMENT", "GOOS", "GOARCH")


def installed() -> str | None:
    """Return the machine's own go program, of any release; None if none."""
    return shutil.which("go") or shutil.which("go", path=_USUAL_PLACE)


def environment(work: pathlib.Path) -> dict[str, str]:
    """Return what Go runs with: the machine's proxy, directories of ours.

    :param work: the directory that modules and compiled packages go to.
    """
    found = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN
    }
    return {
        **found,
        "CGO_ENABLED": "0",
        "GOCACHE": str(work / "compiled"),
        "GOFLAGS": "-modcacherw",
        # A compiler that never collects garbage below the limit needs a
        # quarter less time: 353 packages took 49 s of CPU instead of 64 s.
        "GOGC": "off",
        "GOMEMLIMIT": "1200MiB",
        "GOMODCACHE": str(work / "modules"),
        "GOPATH": str(work / "gopath"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def fetch(
    work: pathlib.Path,
    variables: Mapping[str, str],
    log: pathlib.Path,
    release: str = RELEASE,
) -> pathlib.Path:
    """Download the toolchain and return its go program.

    :param work: an existing directory outside any Go module.
    :param variables: see environment().
    :param log: file that takes Go's output.
    :param release: of Go.
    :raises errors.TestbedError: when this machine has no Go that could
        download it, or can't.
    """
    go = installed()
    if go is None:
        raise errors.TestbedError(
            "no Go is installed; any will do, as Debian's golang-go"
        )
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise errors.TestbedError(f"no Go toolchain is known for {machine}")
    version = f"v0.0.1-{release}.linux-{_ARCHITECTURES[machine]}"
    run_logged(
        (
            "env",
            f"--chdir={work}",
            go,
            "mod",
            "download",
            f"golang.org/toolchain@{version}",
        ),
        timeout=600,
        environment=variables,
        log=log,
    )
    root = pathlib.Path(
        variables["GOMODCACHE"], "golang.org", f"toolchain@{version}"
    )
    # Modules come without execute permissions.
    for directory in (root / "bin", root / "pkg" / "tool"):
        for path in directory.rglob("*"):
            if path.is_file():
                path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return root / "bin" / "go"
