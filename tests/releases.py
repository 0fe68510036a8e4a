# SPDX-License-Identifier: Apache-2.0

"""The OpenStack releases that are supported, and an environment for each.

An environment has Nova and Neutron, the requirements of sriov-rt with all of
its extras, and those of the functional tests, all by the release's pins. It is
in the cache (tests/environments.py); the checkout precedes it in the path.
``python -m tests.releases 2025.2`` makes one ahead.
"""

import dataclasses
import functools
import os
import pathlib
import subprocess
import sys
import tempfile

from tests import environments
from tests.testbed import paths
from tests.testbed import python_env

_FILES = (
    "requirements.txt",
    "test-requirements.txt",
    "tests/functional/requirements.txt",
)


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of OpenStack.

    :param name: its name, such as "2025.2".
    :param nova: Nova's major version.
    :param neutron: Neutron's major version.
    """

    name: str
    nova: int
    neutron: int

    @property
    def pins(self) -> pathlib.Path:
        """The file that pins what sriov-rt shares with the release."""
        return python_env.pins(self.name)

    def python(self) -> str:
        """Return the interpreter of the environment, made if need be.

        :raises errors.TestbedError: if something can't be installed.
        """
        if self is NEWEST:
            return sys.executable
        wanted = [each for name in _FILES for each in environments.read(name)]
        home = environments.make(
            self.name, [*wanted, *environments.extras()], self.pins
        )
        return str(home / "bin" / "python")

    def run(
        self,
        script: str,
        *arguments: str,
        timeout: float,
        path: tuple[pathlib.Path, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Run a script with the release; return exit code and output.

        :param script: a script in Python.
        :param arguments: arguments of the script.
        :param timeout: seconds it may take.
        :param path: directories to import from, after the checkout.
        :param environment: variables to set.
        :raises subprocess.SubprocessError: if it hangs.
        """
        found = [paths.CHECKOUT, *path]
        if self is not NEWEST:
            # It has the entry points; their modules are the checkout's.
            found.append(environments.entry_points())
        done = subprocess.run(
            (self.python(), "-W", "ignore", "-c", script, *arguments),
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, found)),
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        return done.returncode, done.stdout


SUPPORTED = (
    Release("2025.2", nova=32, neutron=27),
    Release("2026.1", nova=33, neutron=28),
    Release("2026.2", nova=34, neutron=29),
)

#: The release in the tests' own environment.
NEWEST = SUPPORTED[-1]


@functools.cache
def wheel() -> pathlib.Path:
    """Build sriov-rt's wheel, once for all tests of a process."""
    return python_env.build_wheel(pathlib.Path(tempfile.mkdtemp()))


if __name__ == "__main__":
    for each in SUPPORTED:
        if each.name in sys.argv[1:]:
            each.python()
