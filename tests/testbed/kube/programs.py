# SPDX-License-Identifier: Apache-2.0

"""The programs of a Kubernetes control plane, built from Go modules.

etcd is Debian's. Of Kubernetes and of NFD there are no packages, and `go
install` refuses modules with replace directives: the module in go/ names
what is built, and pins each of its dependencies by a hash.

``python -m tests.testbed.kube.programs`` builds them.
"""

import dataclasses
import pathlib
import re
import shutil
from collections.abc import Mapping

from tests.testbed import errors
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.kube import toolchain
from tests.testbed.progress import Progress

_MODULE = pathlib.Path(__file__).parent / "go"
_API_SERVER = "k8s.io/kubernetes/cmd/kube-apiserver"
_NFD = "sigs.k8s.io/node-feature-discovery"
_COMMANDS = (_API_SERVER, f"{_NFD}/cmd/nfd-worker", f"{_NFD}/cmd/nfd-master")
#: What running them needs beside.
_PACKAGES = ("etcd-server", "openssl")


@dataclasses.dataclass(frozen=True)
class Programs:
    """Where the programs and NFD's manifests are, built or not.

    :param directory: the directory of the cache that holds them.
    """

    directory: pathlib.Path

    @classmethod
    def in_cache(cls, cache: pathlib.Path) -> "Programs":
        """Return where they are in the directory for downloads and builds."""
        recipe = (*toolchain.texts(_MODULE), _linker_flags())
        return cls(toolchain.in_cache(cache, "kube", *recipe))

    @property
    def api_server(self) -> pathlib.Path:
        """Return kube-apiserver."""
        return self.directory / "bin" / "kube-apiserver"

    @property
    def nfd_master(self) -> pathlib.Path:
        """Return nfd-master."""
        return self.directory / "bin" / "nfd-master"

    @property
    def nfd_worker(self) -> pathlib.Path:
        """Return an nfd-worker that takes its working directory for /.

        It reads sys/, etc/, boot/ and so on there; /proc is the machine's.
        """
        return self.directory / "bin" / "nfd-worker"

    @property
    def nfd_manifests(self) -> pathlib.Path:
        """Return NFD's deployment/base: its CRDs and its RBAC."""
        return self.directory / "nfd"

    @property
    def built(self) -> bool:
        """Whether they are there."""
        return self.directory.is_dir()

    def prepare(self, logs: pathlib.Path, progress: Progress) -> None:
        """Install, download and build what is missing.

        :param logs: the directory that takes the logs of apt and of Go.
        :param progress: where to say what goes on.
        :raises errors.TestbedError: when something can't be had.
        """
        if packages.missing(_PACKAGES):
            with progress.step("Debian packages"):
                packages.install(_PACKAGES, logs / "apt.log")
        toolchain.make(
            self.directory,
            _fill,
            what="Kubernetes and NFD",
            logs=logs,
            progress=progress,
        )


def _fill(go: toolchain.Go, result: pathlib.Path) -> None:
    (result / "bin").mkdir(exist_ok=True)
    go.build(
        _MODULE, *_COMMANDS, to=result / "bin", linker_flags=_linker_flags()
    )
    source = go.source(f"{_NFD}@{version(_NFD)}")
    shutil.copytree(
        source / "deployment" / "base", result / "nfd", dirs_exist_ok=True
    )


def version(module: str) -> str:
    """Return the version of a module that is built, as in "v1.34.4".

    :param module: its path, as in "k8s.io/kubernetes".
    :raises errors.TestbedError: when go.mod doesn't name it.
    """
    text = (_MODULE / "go.mod").read_text()
    found = re.search(rf"^\t{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise errors.TestbedError(f"go.mod requires no {module}")
    return found[1]


def version_flags() -> str:
    """Set what Kubernetes' own builds set when they link."""
    return _flags(_versions())


def _linker_flags() -> str:
    """Set what Kubernetes' and NFD's own builds set when they link."""
    values = _versions()
    values[f"{_NFD}/pkg/version.version"] = version(_NFD)
    # Relative: the directory that the worker runs in is its host's root.
    values[f"{_NFD}/pkg/utils/hostpath.pathPrefix"] = "./"
    values[f"{_NFD}/source/local.featureFilesDir"] = (
        "./etc/kubernetes/node-feature-discovery/features.d/"
    )
    return _flags(values)


def _versions() -> dict[str, str]:
    kubernetes = version("k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    build = {
        "gitVersion": kubernetes,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "archive",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    return {
        f"{package}.{name}": value
        for package in (
            "k8s.io/component-base/version",
            "k8s.io/client-go/pkg/version",
        )
        for name, value in build.items()
    }


def _flags(values: Mapping[str, str]) -> str:
    settings = (f"-X={name}={value}" for name, value in values.items())
    return " ".join(("-s", "-w", *settings))


if __name__ == "__main__":
    directories = paths.Paths.from_environment()
    directories.make()
    Programs.in_cache(directories.cache).prepare(directories.log, Progress())
