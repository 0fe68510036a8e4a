# SPDX-License-Identifier: Apache-2.0

"""A release of Debian in a directory, and a container that boots one.

It is made once by debootstrap, from where this machine installs, and kept in
the cache. Each test has a copy.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import signal
import subprocess
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Self

from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.waiting import run_logged
from tests.testbed.waiting import wait_for

#: What is needed here.
PACKAGES = ("debootstrap", "systemd-container")

#: Seconds until a container is up, and that a command may take.
BOOT = 300.0
PATIENCE = 300.0
_INSTALL_S = 1800.0

#: They would set the machine that the container runs on.
_MASKED = (
    *("systemd-udevd", "systemd-sysctl", "systemd-modules-load"),
    *("systemd-udev-trigger", "systemd-resolved", "systemd-timesyncd"),
)

#: A mirror may be older than the archive says that a mirror may be. And what
#: is in a tree is not worth waiting for the disk.
_APT = """Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Install-Recommends "false";
DPkg::Options "--force-unsafe-io";
"""

#: How a program is run in a tree that isn't booted.
_ENTER = (
    *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit"),
    *("--resolv-conf=copy-host", "--setenv=DEBIAN_FRONTEND=noninteractive"),
)


def suite_of_this_machine() -> str:
    """Return the name of the release that this machine has."""
    release = pathlib.Path("/etc/os-release").read_text()
    (suite,) = re.findall(r"(?m)^VERSION_CODENAME=(\w+)$", release)
    return str(suite)


def make(
    suite: str, wanted: tuple[str, ...], log: pathlib.Path
) -> pathlib.Path:
    """Return a tree of the cache, made if need be.

    :param suite: of Debian, such as ``bookworm``.
    :param wanted: packages to install besides the minimal system.
    :param log: file that takes the output.
    :raises errors.TestbedError: if something can't be installed.
    """
    packages.install(PACKAGES, log)
    directories = paths.Paths.from_environment()
    directories.make()

    def least(fresh: pathlib.Path) -> None:
        _debootstrap(suite, fresh, log)

    def whole(fresh: pathlib.Path) -> None:
        copy(_once(directories.cache / f"debian-{suite}", least), fresh)
        install(fresh, wanted, log)
        run_in(fresh, ("apt-get", "clean"), log=log)

    key = hashlib.sha256(" ".join(sorted(wanted)).encode()).hexdigest()[:12]
    return _once(directories.cache / f"debian-{suite}-{key}", whole)


def _once(
    tree: pathlib.Path, fill: Callable[[pathlib.Path], None]
) -> pathlib.Path:
    """Return a tree that one process makes, while others wait for it."""
    with alone(tree):
        if not tree.exists():
            fresh = tree.with_name(f".{tree.name}.{os.getpid()}")
            fill(fresh)
            fresh.rename(tree)
    return tree


@contextlib.contextmanager
def alone(tree: pathlib.Path) -> Iterator[None]:
    """Keep other processes from a tree of the cache, as systemd-nspawn does.

    systemd-nspawn refuses a tree that is in use, so programs that run in a
    shared tree wait here.
    """
    with tree.with_name(f"{tree.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def copy(tree: pathlib.Path, root: pathlib.Path) -> None:
    """Copy a tree.

    :param root: the copy, which must not exist.
    """
    # Not by shutil, which would read device files.
    # A cache may have links to trees of another cache.
    command = ("cp", "-a", "-H", "--reflink=auto", str(tree), str(root))
    subprocess.run(command, timeout=PATIENCE, check=True)


def run_in(
    root: pathlib.Path,
    command: tuple[str, ...],
    *,
    log: pathlib.Path,
    binds: Mapping[pathlib.Path, str] | None = None,
    options: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    timeout: float = _INSTALL_S,
) -> None:
    """Run a program to its end in a tree that isn't booted, as root.

    :param binds: directories of this machine, and their paths in the tree.
    :param log: file that takes the output.
    :param options: further options of systemd-nspawn(1).
    :param environment: variables that systemd-nspawn reads.
    :param timeout: seconds that it may take.
    :raises errors.CommandFailed: when it exits with another status than 0.
    """
    bound = [f"--bind={here}:{at}" for here, at in (binds or {}).items()]
    run_logged(
        (*_ENTER, "--directory", str(root), *bound, *options, *command),
        timeout=timeout,
        environment={**os.environ, **(environment or {})},
        log=log,
    )


def install(
    root: pathlib.Path, wanted: tuple[str, ...], log: pathlib.Path
) -> None:
    """Install packages in a tree that isn't booted.

    :raises errors.CommandFailed: when apt-get can't.
    """
    run_in(root, ("apt-get", "-q", "update"), log=log)
    run_in(root, ("apt-get", "-q", "-y", "install", *wanted), log=log)


def _debootstrap(suite: str, root: pathlib.Path, log: pathlib.Path) -> None:
    # debootstrap has a script for each known release; they differ by name.
    known = pathlib.Path("/usr/share/debootstrap/scripts", suite).exists()
    run_logged(
        (
            *("debootstrap", "--variant=minbase", suite, str(root)),
            *(_mirror(), *(() if known else ("sid",))),
        ),
        timeout=_INSTALL_S,
        log=log,
    )
    (root / "etc/apt/apt.conf.d/90tests").write_text(_APT)
    # Start no daemon before the tree is booted.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)


def _mirror() -> str:
    """Return the package mirror of this machine."""
    own = suite_of_this_machine()
    listed = subprocess.run(
        ("apt-get", "indextargets", "--format", "$(CODENAME) $(SITE) $(URI)"),
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    for line in listed.stdout.splitlines():
        name, _, uri = line.split()
        if name == own:
            return uri.partition("/dists/")[0]
    raise AssertionError(f"apt knows of no {own}")


class Container:
    """A small host with an init system, in a network namespace of its own.

    :param tree: tree of a release with systemd; it is copied.
    :param directory: directory for its files, which are removed with it.
    """

    def __init__(self, tree: pathlib.Path, directory: pathlib.Path) -> None:
        self.root = directory / "root"
        self._tree = tree
        self._log = directory / "console.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the container and wait until it is up."""
        copy(self._tree, self.root)
        (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
        for name in _MASKED:
            link = self.root / f"etc/systemd/system/{name}.service"
            link.unlink(missing_ok=True)
            link.symlink_to("/dev/null")
        self.prepare()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the container."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                # Kill its first process, which would survive systemd-nspawn.
                os.kill(self.pid, signal.SIGKILL)
                self._process.wait()

    def prepare(self) -> None:
        """Write the files that it needs at boot."""

    def binds(self) -> Mapping[str, str]:
        """Return directories of this machine, with their paths in it."""
        return {}

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write one of its files.

        :param path: absolute, as it sees it.
        """
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def run(
        self, *command: str, timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root.

        :param timeout: seconds that it may take.
        """
        enter = ("nsenter", "--all", "--root", "--wd", "-t")
        return subprocess.run(
            (*enter, str(self.pid), *command),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its first process, as seen from outside; 0 before there is one."""
        assert self._process is not None
        pid = self._process.pid
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        found = re.findall(r"\d+", text)
        return int(found[0]) if found else 0

    def property(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        shown = self.run("systemctl", "show", "-P", name, unit)
        return shown.stdout.strip()

    def _start(self) -> None:
        options = [
            f"--bind-ro={here}:{there}" for here, there in self.binds().items()
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                (
                    *("systemd-nspawn", "--directory", str(self.root)),
                    *("--boot", "--register=no", "--keep-unit"),
                    *("--private-network", "--capability=all", *options),
                ),
                # Later versions of systemd refuse version 1 of cgroups.
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for("systemd is up", self._is_up, timeout=BOOT, interval=1.0)
        except BaseException:
            with contextlib.suppress(OSError):
                self.__exit__()
            raise

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(self._log.read_text()[-2000:])
        if not self.pid:
            return False
        state = self.run("systemctl", "is-system-running").stdout.strip()
        return state in ("running", "degraded")
