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

"""A real systemd in a container, for the units that are shipped.

Debian's, of this machine's own release, installed from where this machine
installs. It has a network namespace of its own, this machine's Python, and
the packages and the checkout of whoever runs the tests.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
from typing import Self

from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.waiting import wait_for

#: What is needed here.
PACKAGES = ("debootstrap", "systemd-container")
#: What is in it, beside the least: systemd, and libraries of Python's.
INCLUDED = (
    *("systemd", "systemd-sysv", "dbus", "iproute2", "libbz2-1.0"),
    *("libffi8", "liblzma5", "libsqlite3-0", "libssl3"),
)
#: Programs of ours that the units start.
PROGRAMS = {
    "sriov-rt": "sriov_rt.cmd.main",
    "sriov-rt-agent": "sriov_rt.cmd.agent",
    "sriov-rt-neutron-agent": "sriov_rt.neutron.agent",
}
#: Users that the packages of OpenStack make.
USERS = {"nova": 64060, "neutron": 64061}

UNITS = paths.CHECKOUT / "etc/systemd"

#: Seconds until it is up, and that a command may take.
BOOT = 300.0
PATIENCE = 300.0

#: They would set the machine that the container runs on.
_MASKED = (
    *("systemd-udevd", "systemd-sysctl", "systemd-modules-load"),
    *("systemd-udev-trigger", "systemd-resolved", "systemd-timesyncd"),
)

_WRAPPER = """#!/bin/sh
export PYTHONPATH={path}
exec /opt/python/bin/python3 -m {module} "$@"
"""


class Container:
    """A small host with an init system.

    :param directory: for its files, which go with it.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.root = directory / "root"
        self._log = directory / "console.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Make it and wait until it is up."""
        packages.install(PACKAGES, self._log)
        # Not by shutil: it would read its devices.
        copy = ("cp", "-a", str(_base(self._log)), str(self.root))
        subprocess.run(copy, timeout=PATIENCE, check=True)
        self._prepare()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write one of its files.

        :param path: absolute, as it sees it.
        """
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root."""
        enter = ("nsenter", "--all", "--root", "--wd", "-t")
        return subprocess.run(
            (*enter, str(self._init()), *command),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def property(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        shown = self.run("systemctl", "show", "-P", name, unit)
        return shown.stdout.strip()

    def _prepare(self) -> None:
        for name, number in USERS.items():
            with (self.root / "etc/passwd").open("a") as file:
                file.write(f"{name}:x:{number}:{number}::/:/bin/false\n")
            with (self.root / "etc/group").open("a") as file:
                file.write(f"{name}:x:{number}:\n")
        for name in _MASKED:
            link = self.root / f"etc/systemd/system/{name}.service"
            link.unlink(missing_ok=True)
            link.symlink_to("/dev/null")
        # An environment variable for it would not reach who has ambient
        # capabilities.
        self.write("/etc/ld.so.conf.d/python.conf", "/opt/python/lib\n")
        path = ":".join(self._binds().values())
        for name, module in PROGRAMS.items():
            text = _WRAPPER.format(path=path, module=module)
            self.write(f"/usr/bin/{name}", text, 0o755)
        for unit in UNITS.iterdir():
            self.write(f"/etc/systemd/system/{unit.name}", unit.read_text())

    def _binds(self) -> dict[str, str]:
        """Return what of this machine's Python is where inside."""
        own = str(paths.CHECKOUT)
        standard = str(pathlib.Path(os.__file__).parent)
        found = {own: "/opt/checkout"}
        for number, each in enumerate(sys.path):
            path = pathlib.Path(each or ".").resolve()
            if path.is_dir() and not str(path).startswith(standard):
                found.setdefault(str(path), f"/opt/packages{number}")
        return found

    def _start(self) -> None:
        binds = {**self._binds(), sys.base_prefix: "/opt/python"}
        options = [
            f"--bind-ro={here}:{there}" for here, there in binds.items()
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                (
                    *("systemd-nspawn", "--directory", str(self.root)),
                    *("--boot", "--register=no", "--keep-unit"),
                    *("--private-network", "--capability=all", *options),
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_for("systemd is up", self._is_up, timeout=BOOT, interval=1.0)
        self.run("ldconfig")

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(self._log.read_text()[-2000:])
        if not self._init():
            return False
        state = self.run("systemctl", "is-system-running").stdout.strip()
        return state in ("running", "degraded")

    def _init(self) -> int:
        assert self._process is not None
        pid = self._process.pid
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        found = re.findall(r"\d+", text)
        return int(found[0]) if found else 0


def _base(log: pathlib.Path) -> pathlib.Path:
    """Return a tree of Debian that is made once."""
    release = pathlib.Path("/etc/os-release").read_text()
    (suite,) = re.findall(r"(?m)^VERSION_CODENAME=(\w+)$", release)
    directories = paths.Paths.from_environment()
    directories.make()
    tree = directories.cache / f"systemd-{suite}"
    if tree.exists():
        return tree
    fresh = tree.with_name(f".{tree.name}.{os.getpid()}")
    with log.open("ab") as output:
        subprocess.run(
            (
                *("debootstrap", "--variant=minbase"),
                *("--include", ",".join(INCLUDED), suite, str(fresh)),
                _mirror(suite),
            ),
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=1800,
            check=True,
        )
    fresh.rename(tree)
    return tree


def _mirror(suite: str) -> str:
    """Return where this machine installs a release from."""
    listed = subprocess.run(
        ("apt-get", "indextargets", "--format", "$(CODENAME) $(SITE) $(URI)"),
        capture_output=True,
        text=True,
        check=True,
    )
    for line in listed.stdout.splitlines():
        name, _, uri = line.split()
        if name == suite:
            return uri.partition("/dists/")[0]
    raise AssertionError(f"apt knows of no {suite}")
