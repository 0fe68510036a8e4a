# SPDX-License-Identifier: Apache-2.0

"""The virtual environment with OpenStack in it, and sriov-rt on top."""

import dataclasses
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from typing import Any

from tests.testbed import errors
from tests.testbed import paths
from tests.testbed.waiting import run_logged

#: The release of OpenStack under test.
RELEASE = "2026.2"
#: Its services; tests/constraints pins Nova and Neutron.
OPENSTACK = (
    "keystone==30.0.0",
    "openstack-placement==16.0.0",
    "glance==33.0.0",
    "neutron",
    "nova",
    "tempest==47.0.0",
    "python-openstackclient",
    "osc-placement",
    "PyMySQL",
)
#: These are compiled, and need headers that apt brings.
COMPILED = ("libvirt-python", "uwsgi")
#: Of pyproject.toml; the label source `kubernetes` is one of the project's.
EXTRA = "kubernetes"
#: The version that sriov-rt has where there is no git history.
VERSION = "1.0.0"
#: What Nova imports as its compute driver.
SHIM = paths.CHECKOUT / "shim" / "nova" / "virt" / "sriov_rt.py"
#: Debian's own interpreter: python3-dev has the headers of that one.
_PYTHON = "/usr/bin/python3"
#: What the wheel of sriov-rt is made from.
_PROJECT_PARTS = (
    "LICENSE",
    "README.rst",
    "etc",
    "pyproject.toml",
    "requirements.txt",
    "setup.cfg",
    "setup.py",
    "shim",
    "sriov_rt",
    "sriov_rt_tempest_plugin",
)


def pins(release: str = RELEASE) -> pathlib.Path:
    """Return the file that pins what sriov-rt shares with a release.

    :param release: of OpenStack, as in "2026.2".
    """
    return paths.CHECKOUT / "tests" / "constraints" / f"{release}.txt"


def build_wheel(
    directory: pathlib.Path,
    *,
    python: str = sys.executable,
    isolated: bool = True,
    log: pathlib.Path | None = None,
) -> pathlib.Path:
    """Build sriov-rt's wheel from a copy of the checkout.

    :param directory: where it is put.
    :param python: the interpreter whose pip builds it.
    :param isolated: whether pip fetches the build tools; they are installed
        otherwise.
    :param log: file that takes pip's output; one in the directory if None.
    :raises errors.TestbedError: when it doesn't build.
    """
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch)
        _copy_project(tree)
        run_logged(
            (
                *(python, "-m", "pip", "wheel", "--no-deps"),
                *(() if isolated else ("--no-build-isolation",)),
                *("--wheel-dir", str(directory), str(tree)),
            ),
            timeout=300,
            # The copy has no git history to take a version from.
            environment={**os.environ, "PBR_VERSION": VERSION},
            log=log or directory / "pip.log",
        )
    (wheel,) = directory.glob("sriov_rt-*.whl")
    return wheel


@dataclasses.dataclass(frozen=True)
class PythonEnv:
    """A virtual environment in the cache, named after what is in it.

    :param root: its directory.
    :param packages: what pip installs into it beside sriov-rt.
    :param extra: of sriov-rt.
    """

    root: pathlib.Path
    packages: tuple[str, ...] = OPENSTACK
    extra: str = EXTRA

    @classmethod
    def in_cache(
        cls,
        cache: pathlib.Path,
        packages: tuple[str, ...] = OPENSTACK,
        extra: str = EXTRA,
    ) -> "PythonEnv":
        """Name the environment of this checkout's requirements.

        :param cache: the cache directory.
        :param packages: packages that pip installs besides sriov-rt.
        :param extra: an extra of sriov-rt.
        """
        version = pathlib.Path(_PYTHON).resolve().name
        wanted = (*_build_tools(), *packages, *COMPILED)
        text = "\n".join((version, *wanted, pins().read_text()))
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        return cls(cache / f"venv-{key}", packages, extra)

    @property
    def bin(self) -> pathlib.Path:
        """Directory of the programs."""
        return self.root / "bin"

    @property
    def etc(self) -> pathlib.Path:
        """Directory of the paste and policy files of the wheels."""
        return self.root / "etc"

    @property
    def complete(self) -> bool:
        """Whether all is installed, with any version of sriov-rt."""
        return self._done("project").exists()

    def program(self, name: str) -> str:
        """Return the path of a program of the environment.

        :param name: as in "nova-compute".
        """
        return str(self.bin / name)

    def create(self, log: pathlib.Path) -> None:
        """Make it with only pip in it, unless it has packages already.

        :param log: file that takes the output.
        :raises errors.CommandFailed: when it can't be made.
        """
        if self._done("pure").exists():
            return
        shutil.rmtree(self.root, ignore_errors=True)
        command = (_PYTHON, "-m", "venv", str(self.root))
        run_logged(command, timeout=120, log=log)

    def build_pure(self, log: pathlib.Path) -> None:
        """Install packages that need no compiler, unless that was done.

        :param log: file that takes pip's output.
        :raises errors.CommandFailed: when pip can't.
        """
        if self._done("pure").exists():
            return
        self._pip((*_build_tools(), *self.packages), log)
        self._done("pure").touch()

    def compile(self, log: pathlib.Path) -> None:
        """Compile packages that need apt's packages, unless that was done.

        It may run during build_pure(), which leaves a processor idle and
        replaces setuptools and wheel: pip builds in its own environment.

        :param log: file that takes pip's output.
        :raises errors.CommandFailed: when pip can't.
        """
        if self._done("compiled").exists():
            return
        run_logged(
            (
                *(self.program("pip"), "wheel", "--no-deps", "--use-pep517"),
                *("-c", str(pins()), "--wheel-dir", str(self._wheels)),
                *COMPILED,
            ),
            timeout=1800,
            log=log,
        )

    def install_compiled(self, log: pathlib.Path) -> None:
        """Install the wheels of compile(), unless that was done.

        :param log: file that takes pip's output.
        :raises errors.CommandFailed: when pip can't.
        """
        if self._done("compiled").exists():
            return
        wheels = map(str, sorted(self._wheels.glob("*.whl")))
        self._pip(("--no-deps", *wheels), log)
        shutil.rmtree(self._wheels)
        self._done("compiled").touch()

    def install_project(self, log: pathlib.Path) -> bool:
        """Install sriov-rt as a wheel, if the checkout has changed.

        :param log: file that takes pip's output.
        :returns: whether it had changed.
        :raises errors.TestbedError: when it doesn't build or install, or
            something runs from the environment.
        """
        extra = _project()["project"]["optional-dependencies"][self.extra]
        digest = f"{_project_digest()} {self.extra}"
        mark = self._done("project")
        if mark.exists() and mark.read_text() == digest:
            return False
        self._refuse_if_in_use()
        with tempfile.TemporaryDirectory() as scratch:
            wheel = build_wheel(
                pathlib.Path(scratch),
                python=self.program("python"),
                isolated=False,
                log=log,
            )
            requirements = str(paths.CHECKOUT / "requirements.txt")
            self._pip(("-r", requirements, *extra), log)
            self._pip(("--no-deps", "--force-reinstall", str(wheel)), log)
        mark.write_text(digest)
        return True

    def _refuse_if_in_use(self) -> None:
        """Refuse to change files that another cloud is using."""
        own = str(self.root).encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if own in command:
                raise errors.TestbedError(
                    "the checkout has changed, and another cloud runs from "
                    f"{self.root}; take that one down, or set SRIOV_RT_CACHE"
                )

    @property
    def _wheels(self) -> pathlib.Path:
        return self.root / "wheels"

    def _done(self, part: str) -> pathlib.Path:
        return self.root / f".{part}-installed"

    def _pip(self, arguments: Sequence[str], log: pathlib.Path) -> None:
        run_logged(
            (self.program("pip"), "install", "-c", str(pins()), *arguments),
            timeout=1800,
            log=log,
        )


def _build_tools() -> tuple[str, ...]:
    """Return the build requirements of the project's wheel."""
    requires: list[str] = _project()["build-system"]["requires"]
    return ("wheel", *requires)


def _project() -> dict[str, Any]:
    return tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())


def _project_files() -> list[pathlib.Path]:
    found: list[pathlib.Path] = []
    for part in _PROJECT_PARTS:
        path = paths.CHECKOUT / part
        if path.is_dir():
            found += (each for each in path.rglob("*") if each.is_file())
        elif path.exists():
            found.append(path)
    return sorted(each for each in found if "__pycache__" not in each.parts)


def _project_digest() -> str:
    """Hash the names and contents of all that goes into the wheel."""
    digest = hashlib.sha256()
    for path in _project_files():
        content = path.read_bytes()
        name = path.relative_to(paths.CHECKOUT)
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _copy_project(tree: pathlib.Path) -> None:
    for path in _project_files():
        target = tree / path.relative_to(paths.CHECKOUT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
