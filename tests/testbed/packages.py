# SPDX-License-Identifier: Apache-2.0

"""Debian packages: installs missing ones without starting daemons."""

import contextlib
import fcntl
import os
import pathlib
import stat
import subprocess
from collections.abc import Iterator
from collections.abc import Sequence

from tests.testbed import errors
from tests.testbed.waiting import run_logged

#: Build tools and daemons of the control plane, of std-1 and of lxc-1.
CONTROL_PLANE = (
    "busybox-static",
    "e2fsprogs",
    "gcc",
    "iproute2",
    "libc6-dev",
    "libvirt-clients",
    "libvirt-daemon-driver-lxc",
    "libvirt-daemon-system",
    "libvirt-dev",
    "mariadb-server",
    "musl-tools",
    "pkg-config",
    "python3-dev",
    "python3-venv",
    "qemu-system-x86",
    "qemu-utils",
    "rabbitmq-server",
)

_LOCK = pathlib.Path("/run/lock/sriov-rt-packages")

#: invoke-rc.d(8) asks this program whether a daemon may be started.
_POLICY = pathlib.Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# sriov-rt test cloud: start no daemon.\nexit 101\n"


def missing(names: Sequence[str]) -> list[str]:
    """Return the packages that aren't installed.

    :param names: names of Debian packages.
    """
    asked = subprocess.run(
        ("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *names),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        text=True,
        check=False,
    )
    installed = {
        line.split()[1]
        for line in asked.stdout.splitlines()
        if line.startswith("installed ")
    }
    return sorted(set(names) - installed)


def install(names: Sequence[str], log: pathlib.Path) -> list[str]:
    """Install what is missing, with the machine's own apt configuration.

    :param names: names of Debian packages.
    :param log: file that takes apt's output.
    :returns: what had to be installed.
    :raises errors.CommandFailed: when apt-get can't.
    """
    if not (names and missing(names)):
        return []
    with _alone(), _no_daemons():
        # Another runner may have installed some meanwhile.
        wanted = missing(names)
        if not wanted:
            return []
        try:
            _apt_get("install", "--no-install-recommends", *wanted, log=log)
        except errors.CommandFailed:
            # There are no package lists, or they name files that are gone.
            _apt_get("update", log=log)
            _apt_get("install", "--no-install-recommends", *wanted, log=log)
    return wanted


def _apt_get(verb: str, *arguments: str, log: pathlib.Path) -> None:
    run_logged(
        (
            "apt-get",
            "-q",
            "-y",
            "-o",
            "DPkg::Lock::Timeout=600",
            verb,
            *arguments,
        ),
        timeout=1200,
        environment={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        log=log,
    )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Prevent other runners from installing meanwhile.

    apt's own lock is not enough: the runner that ends first removes the
    policy.
    """
    # A container that was not booted has an empty /run.
    _LOCK.parent.mkdir(exist_ok=True)
    with _LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _no_daemons() -> Iterator[None]:
    """Prevent maintainer scripts from starting daemons meanwhile."""
    if _POLICY.exists():
        # The machine has its own policy, which is kept.
        yield
        return
    _POLICY.write_text(_POLICY_TEXT)
    _POLICY.chmod(stat.S_IRWXU | stat.S_IXGRP | stat.S_IXOTH)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)
