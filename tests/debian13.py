# SPDX-License-Identifier: Apache-2.0

"""The gate's runners in a container of Debian 13, with its Python 3.13.

``tox -e debian13`` runs this: ``tools/test unit functional``, with the pins of
tox.ini, on a clone of the checkout. Arguments replace the command.

The tests' Go programs are built on this machine and copied: they are linked
statically, and building the same in Debian 13 would take minutes.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence

from tests import run
from tests.packages import sources
from tests.testbed import debian_tree
from tests.testbed import errors
from tests.testbed import paths
from tests.testbed.kube import cluster_api_programs
from tests.testbed.kube.programs import Programs
from tests.testbed.kubevirt import programs as kubevirt
from tests.testbed.progress import Progress

SUITE = "trixie"

#: Packages that tools/test expects, or would install each time.
_INCLUDED = (
    *("ca-certificates", "git", "python3-dev", "python3-venv"),
    *run.FUNCTIONAL,
)

_COMMAND = ("tools/test", "unit", "functional")

#: The tests' cache of built programs, in the container.
_CACHE = "root/.cache/sriov-rt"

#: Seconds that the tests may take, with an empty cache.
_PATIENCE = 7200.0

_OPTIONS = (
    *("--capability=all", "--chdir=/checkout"),
    # libvirt's containers need control groups, and FUSE for their /proc.
    *("--bind=/sys/fs/cgroup", "--bind=/dev/fuse"),
    *("--setenv=SRIOV_RT_STATE=/state", "--setenv=PYTHONUNBUFFERED=1"),
    # Its /tmp and /dev/shm are mounted with nodev.
    "--setenv=TMPDIR=/var/tmp",
)
#: Tests make links and namespaces, and look for the processes that use them,
#: so they share this machine's and may write to /proc/sys and /sys. pip needs
#: its network to install.
_TRUSTED = {
    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1",
    "SYSTEMD_NSPAWN_SHARE_NS_PID": "1",
}


def _clone(tree: pathlib.Path) -> None:
    """Clone the checkout, including uncommitted changes."""
    command = ("git", "clone", "--quiet", str(paths.CHECKOUT), str(tree))
    subprocess.run(command, check=True, timeout=300)
    sources.copy(tree)


def _built() -> list[pathlib.Path]:
    """Build the Go programs of the gate's tests and return their directories.

    :raises errors.TestbedError: when something can't be downloaded or built.
    """
    place = paths.Paths.from_environment()
    place.make()
    progress = Progress()
    kubernetes = Programs.in_cache(place.cache)
    kubernetes.prepare(place.log, progress)
    return [
        kubernetes.directory,
        cluster_api_programs.helm(place, progress),
        cluster_api_programs.crds(place, progress),
        kubevirt.ROUNDTRIP.prepare(place.cache, place.log, progress).parent,
    ]


def _copy(built: Sequence[pathlib.Path], cache: pathlib.Path) -> None:
    """Copy directories into a cache.

    :param cache: a directory that is made.
    """
    cache.mkdir(parents=True, exist_ok=True)
    for path in built:
        shutil.copytree(path, cache / path.name)


def _of_pip() -> list[str]:
    """Return options that make pip install as it does on this machine."""
    found = [
        f"--setenv={name}={value}"
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    ]
    # The certificates that this machine trusts.
    return [*found, "--bind-ro=/etc/ssl/certs"]


def main(command: Sequence[str]) -> int:
    """Run a command in the container; return the exit code.

    :param command: run in the clone; _COMMAND if empty.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        log = pathlib.Path(directory, "log")
        root = pathlib.Path(directory, "root")
        debian_tree.copy(debian_tree.make(SUITE, _INCLUDED, log), root)
        # Copied, not mounted: tests make overlays of directories below /.
        _clone(root / "checkout")
        _copy(_built(), root / _CACHE)
        try:
            debian_tree.run_in(
                root,
                tuple(command) or _COMMAND,
                log=log,
                options=(*_OPTIONS, *_of_pip()),
                environment=_TRUSTED,
                timeout=_PATIENCE,
            )
        except errors.TestbedError:
            code = 1
        else:
            code = 0
        # Only stestr's output is counted; tools/test repeats parts of it.
        for each in sorted(root.glob("state/log/test-*.log")):
            print(each.read_text(errors="replace"))
        print(textwrap.indent(log.read_text(errors="replace"), "  "))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
