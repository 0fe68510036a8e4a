# SPDX-License-Identifier: Apache-2.0

"""A real systemd in a container, for the units that are shipped.

Debian's, of this machine's own release. It has this machine's Python, and the
packages and the checkout of whoever runs the tests.
"""

import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Self

from tests.testbed import debian_tree
from tests.testbed import paths
from tests.testbed.debian_tree import PATIENCE

__all__ = ["PATIENCE", "Container"]

#: What is in it, beside the least: systemd, udev, and libraries of Python's.
INCLUDED = (
    *("systemd", "systemd-sysv", "udev", "dbus", "iproute2", "libbz2-1.0"),
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
#: Where packages put them.
INSTALLED = "/usr/lib/systemd/system"

_WRAPPER = """#!/bin/sh
export PYTHONPATH={path}
exec /opt/python/bin/python3 -m {module} "$@"
"""


class Container(debian_tree.Container):
    """A small host with an init system and this machine's Python.

    :param directory: for its files, which go with it.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        suite = debian_tree.suite_of_this_machine()
        tree = debian_tree.make(suite, INCLUDED, directory / "apt.log")
        super().__init__(tree, directory)

    def __enter__(self) -> Self:
        """Make it and wait until it is up."""
        super().__enter__()
        self.run("ldconfig")
        return self

    def prepare(self) -> None:
        """Write users, programs and units."""
        for name, number in USERS.items():
            with (self.root / "etc/passwd").open("a") as file:
                file.write(f"{name}:x:{number}:{number}::/:/bin/false\n")
            with (self.root / "etc/group").open("a") as file:
                file.write(f"{name}:x:{number}:\n")
        # An environment variable for it would not reach who has ambient
        # capabilities.
        self.write("/etc/ld.so.conf.d/python.conf", "/opt/python/lib\n")
        path = ":".join(self._python_path().values())
        for name, module in PROGRAMS.items():
            text = _WRAPPER.format(path=path, module=module)
            self.write(f"/usr/bin/{name}", text, 0o755)
        for unit in UNITS.iterdir():
            self.write(f"{INSTALLED}/{unit.name}", unit.read_text())

    def binds(self) -> Mapping[str, str]:
        """Return directories of this machine, and where they are in it."""
        return {**self._python_path(), sys.base_prefix: "/opt/python"}

    def _python_path(self) -> dict[str, str]:
        """Return what of this machine's Python is where inside."""
        own = str(paths.CHECKOUT)
        standard = str(pathlib.Path(os.__file__).parent)
        found = {own: "/opt/checkout"}
        for number, each in enumerate(sys.path):
            path = pathlib.Path(each or ".").resolve()
            if path.is_dir() and not str(path).startswith(standard):
                found.setdefault(str(path), f"/opt/packages{number}")
        return found
