# SPDX-License-Identifier: Apache-2.0

"""The first process of the cloud's namespaces.

`launch` joins the cloud's control groups and becomes unshare(1), which
starts `init` as process 1 of the new namespaces. That mounts file systems,
makes the network, and then only reaps orphans.
"""

import os
import pathlib
import signal
import subprocess
import sys

from tests.testbed import cgroups
from tests.testbed import network
from tests.testbed import paths

#: Directories of libvirt that the cloud has its own copies of.
LIBVIRT_DIRECTORIES = {
    "etc": "/etc/libvirt",
    "lib": "/var/lib/libvirt",
    "log": "/var/log/libvirt",
    "cache": "/var/cache/libvirt",
}


def launch(place: paths.Paths) -> None:
    """Join the control groups and become unshare; doesn't return.

    :param place: the directories of the cloud.
    """
    groups = cgroups.load(place.run / "cgroups.json")
    cgroups.join_top(groups)
    os.execvp(
        "unshare",
        [
            "unshare",
            "--net",
            "--mount",
            "--uts",
            "--ipc",
            "--cgroup",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            sys.executable,
            "-m",
            "tests.testbed.supervisor",
            "init",
        ],
    )


def init(place: paths.Paths) -> None:
    """Set the namespaces up, report it, and reap orphans for ever.

    :param place: the directories of the cloud.
    """
    _mount(place)
    network.build(place)
    # Orphans become our children and end here. The signal is blocked, so that
    # it waits for sigwait.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    (place.run / "supervisor.ready").touch()
    while True:
        _reap()
        signal.sigwait({signal.SIGCHLD})


def _reap() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def _mount(place: paths.Paths) -> None:
    """Hide the machine's daemons and directories behind the cloud's own."""
    groups = cgroups.load(place.run / "cgroups.json")
    # A sysfs of this network namespace; it comes without the cgroups.
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    _mount_cgroups(groups)
    # No daemon of the machine listens in here: not dbus, not systemd.
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for name in ("lock", "libvirt", "netns"):
        pathlib.Path("/run", name).mkdir()
    for name, target in LIBVIRT_DIRECTORIES.items():
        source = place.data / "libvirt" / name
        source.mkdir(parents=True, exist_ok=True)
        pathlib.Path(target).mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", str(source), target)


def _mount_cgroups(groups: tuple[cgroups.Hierarchy, ...]) -> None:
    top = "/sys/fs/cgroup"
    if not any(group.controllers for group in groups):
        _run("mount", "-t", "cgroup2", "cgroup2", top)
        return
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "cgroup", top)
    for group in groups:
        names = ",".join(group.controllers)
        pathlib.Path(top, names).mkdir()
        _run("mount", "-t", "cgroup", "-o", names, "cgroup", f"{top}/{names}")


def _run(*command: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True, timeout=20)


def main() -> None:
    """Run the function that the first argument names: launch or init."""
    place = paths.Paths.from_environment()
    {"launch": launch, "init": init}[sys.argv[1]](place)


if __name__ == "__main__":
    main()
