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

"""The OpenStack releases that are supported, and an environment of each.

An environment has Nova and Neutron, what sriov-rt requires with all of its
extras, and what the functional tests import, all by the release's pins. It is
in the cache, named after what it was made from, and has no sriov-rt: that is
put before it, so that several checkouts can use it at the same time.
"""

import dataclasses
import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed.waiting import run
from tests.testbed.waiting import run_logged

#: Seconds that an environment may take to install from an empty cache.
_INSTALL_S = 1800

_REQUIREMENTS = (
    "requirements.txt",
    "test-requirements.txt",
    "tests/functional/requirements.txt",
)


@dataclasses.dataclass(frozen=True)
class Release:
    """A release of OpenStack.

    :param name: as in "2025.2".
    :param nova: Nova's major version.
    :param neutron: Neutron's.
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
        places = paths.Paths.from_environment()
        places.make()
        wanted = (*_requirements(), *extras())
        text = "\n".join((sys.version, *wanted, self.pins.read_text()))
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        home = places.cache / f"venv-{self.name}-{key}"
        mark = home / ".installed"
        lock = places.cache / f"venv-{self.name}-{key}.lock"
        with lock.open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if not mark.exists():
                log = places.log / f"pip-{self.name}.log"
                # No links into the environment that runs this.
                command = (sys.executable, "-m", "venv", "--clear", str(home))
                run_logged(command, timeout=300, log=log)
                pip = (str(home / "bin/pip"), "install", "-c", str(self.pins))
                run_logged((*pip, *wanted), timeout=_INSTALL_S, log=log)
                mark.touch()
            # What installing sriov-rt beside this release would put there.
            (virt,) = home.glob("lib/python3*/site-packages/nova/virt")
            shutil.copy(python_env.SHIM, virt)
        return str(home / "bin" / "python")

    def run(
        self,
        script: str,
        *arguments: str,
        timeout: float,
        path: tuple[pathlib.Path, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Run a script beside the release; return exit code and output.

        :param script: of Python.
        :param arguments: its own.
        :param timeout: seconds it may take.
        :param path: where it imports from, after the checkout.
        :param environment: variables to set.
        :raises subprocess.SubprocessError: if it hangs.
        """
        found = [paths.CHECKOUT, *path]
        if self is not NEWEST:
            # For its entry points; their modules are the checkout's.
            found.append(installed())
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

#: The one that the tests' own environment has, sriov-rt and all.
NEWEST = SUPPORTED[-1]


def extras() -> tuple[str, ...]:
    """Return what all extras of the package require."""
    text = (paths.CHECKOUT / "pyproject.toml").read_text()
    found = tomllib.loads(text)["project"]["optional-dependencies"]
    return tuple(sorted({each for extra in found.values() for each in extra}))


@functools.cache
def wheel() -> pathlib.Path:
    """Build sriov-rt's wheel, once for all tests of a process."""
    return python_env.build_wheel(pathlib.Path(tempfile.mkdtemp()))


@functools.cache
def installed() -> pathlib.Path:
    """Install the wheel alone, without what it requires, and return where."""
    target = pathlib.Path(tempfile.mkdtemp())
    command = (sys.executable, "-m", "pip", "install", "--quiet")
    run(
        (*command, "--no-deps", "--target", str(target), str(wheel())),
        timeout=_INSTALL_S,
    )
    return target


def _requirements() -> tuple[str, ...]:
    lines = "\n".join(
        (paths.CHECKOUT / name).read_text() for name in _REQUIREMENTS
    ).splitlines()
    words = (line.partition("#")[0].strip() for line in lines)
    return tuple(sorted({word for word in words if word}))
