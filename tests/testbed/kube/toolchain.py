# SPDX-License-Identifier: Apache-2.0

"""Programs of Go modules, built once, with a release of Go of ours.

Debian 12's Go 1.19 is too old for Kubernetes 1.34 and NFD 0.18, but it can
fetch modules, and Go's releases are modules too. Go checks them against
its checksum database, as it does all that it downloads. So the compiler is
the same on every machine, whatever Go is installed there.
"""

import fcntl
import functools
import hashlib
import os
import pathlib
import platform
import shutil
import stat
from collections.abc import Callable

from tests.testbed import errors
from tests.testbed import packages
from tests.testbed.progress import Progress
from tests.testbed.waiting import run_logged

#: A release of Go; NFD 0.18.3 wants 1.25 at least (its go.mod).
RELEASE = "go1.25.14"

#: What Go calls the machines of platform.machine().
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: Where Go is looked for when it isn't on the PATH.
_USUAL_PLACE = "/usr/local/go/bin"
#: Variables that would change what is built, or what builds it.
_FOREIGN = ("GOROOT", "GOBIN", "GOEXPERIMENT", "GOOS", "GOARCH")
#: Nobody debugs these. Without inlining nfd-worker took 136 s of CPU instead
#: of 178 s.
_COMPILER_FLAGS = "-gcflags=all=-dwarf=false -l"
_STRIPPED = "-s -w"
#: Two busy cores take a quarter of it.
_BUILD_SECONDS = 3600.0
_DOWNLOAD_SECONDS = 600.0


class Go:
    """A release of Go, with what it downloads and compiles.

    :param work: the directory for that, outside any Go module.
    :param log: file that takes its output.
    :param release: its name.
    """

    def __init__(
        self, work: pathlib.Path, log: pathlib.Path, release: str = RELEASE
    ) -> None:
        self._work = work
        self._log = log
        self._release = release
        self._variables = _environment(work)

    def build(
        self,
        module: pathlib.Path,
        *commands: str,
        to: pathlib.Path,
        linker_flags: str = _STRIPPED,
    ) -> None:
        """Build programs that a module of ours names.

        :param module: its directory; it pins each dependency by a hash.
        :param commands: their packages.
        :param to: a directory that is there, or the file of one program.
        :raises errors.CommandFailed: when that fails.
        """
        copy = self._work / module.name
        shutil.copytree(module, copy, dirs_exist_ok=True)
        self._run(
            *("build", "-C", str(copy), "-mod=readonly", "-trimpath"),
            *(_COMPILER_FLAGS, f"-ldflags={linker_flags}", "-o", str(to)),
            *commands,
        )

    def install(self, package: str, *, to: pathlib.Path) -> None:
        """Build a program in its own module, which has no replace directives.

        :param package: with its version, as in "helm.sh/helm/v3@v3.22.0".
        :param to: a directory.
        :raises errors.CommandFailed: when that fails.
        """
        self._run(
            *("install", "-trimpath", _COMPILER_FLAGS),
            *(f"-ldflags={_STRIPPED}", package),
            GOBIN=str(to),
        )

    def source(self, module: str) -> pathlib.Path:
        """Return the directory of a module, downloaded if need be.

        An older Go refuses modules that want a newer one, so it's ours.

        :param module: with its version, as in "k8s.io/kubernetes@v1.34.4".
        :raises errors.CommandFailed: when it can't be had.
        """
        return self._download(str(self._program), module)

    def _download(self, go: str, module: str) -> pathlib.Path:
        run_logged(
            ("env", f"--chdir={self._work}", go, "mod", "download", module),
            timeout=_DOWNLOAD_SECONDS,
            environment=self._variables,
            log=self._log,
        )
        return pathlib.Path(self._variables["GOMODCACHE"], module)

    def _run(self, *arguments: str, **variables: str) -> None:
        run_logged(
            (
                *("env", f"--chdir={self._work}"),
                *("nice", "-n15", str(self._program), *arguments),
            ),
            timeout=_BUILD_SECONDS,
            environment={**self._variables, **variables},
            log=self._log,
        )

    @functools.cached_property
    def _program(self) -> pathlib.Path:
        machine = platform.machine()
        if machine not in _ARCHITECTURES:
            raise errors.TestbedError(
                f"no Go toolchain is known for {machine}"
            )
        installed = _installed()
        if installed is None:
            raise errors.TestbedError(
                "no Go is installed; any will do, as Debian's golang-go"
            )
        name = f"{self._release}.linux-{_ARCHITECTURES[machine]}"
        root = self._download(installed, f"golang.org/toolchain@v0.0.1-{name}")
        # Modules come without execute permissions.
        for directory in (root / "bin", root / "pkg" / "tool"):
            for path in directory.rglob("*"):
                if path.is_file():
                    path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return root / "bin" / "go"


def in_cache(
    cache: pathlib.Path, name: str, *recipe: str, release: str = RELEASE
) -> pathlib.Path:
    """Name a directory of the cache after all that decides what is in it.

    :param cache: the directory for downloads and builds.
    :param name: what it begins with.
    :param recipe: texts that say what is built.
    """
    text = "\0".join((release, _COMPILER_FLAGS, *recipe))
    return cache / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def texts(module: pathlib.Path) -> list[str]:
    """Return the files of a module of ours, which decide what is built."""
    return [
        each.read_text()
        for each in sorted(module.rglob("*"))
        if each.is_file()
    ]


def make(
    directory: pathlib.Path,
    fill: Callable[[Go, pathlib.Path], None],
    *,
    what: str,
    logs: pathlib.Path,
    progress: Progress,
    release: str = RELEASE,
) -> pathlib.Path:
    """Return a directory of the cache, made if need be.

    What was downloaded and compiled goes away once all is built; it stays
    after a failure, so that the next try goes on from there.

    :param fill: puts into a directory what is to be in that one.
    :param what: what is made, for who waits.
    :param logs: the directory that takes the logs of apt and of Go.
    :raises errors.TestbedError: when something can't be had or built.
    """
    if directory.is_dir():
        return directory
    if _installed() is None:
        packages.install(("golang-go",), logs / "apt.log")
    log = logs / f"{directory.name}.log"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (
        progress.step(f"{what} (log: {log})"),
        directory.with_suffix(".lock").open("a") as lock,
    ):
        # One process at a time; the others find it made.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            work = directory.with_suffix(".work")
            result = work / "result"
            result.mkdir(parents=True, exist_ok=True)
            fill(Go(work, log, release), result)
            result.rename(directory)
            shutil.rmtree(work)
    return directory


def _installed() -> str | None:
    """Return the machine's own go program, of any release; None if none."""
    return shutil.which("go") or shutil.which("go", path=_USUAL_PLACE)


def _environment(work: pathlib.Path) -> dict[str, str]:
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
