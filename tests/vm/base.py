# SPDX-License-Identifier: Apache-2.0

"""The machine that the tests of this package share."""

import atexit
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import sys
import tomllib
import unittest
from collections.abc import Iterator
from typing import Any
from typing import ClassVar

from tests import again
from tests.testbed import errors
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed.progress import Progress
from tests.testbed.python_env import PythonEnv
from tests.testbed.rtvm import Cable
from tests.testbed.rtvm import Job
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import Result
from tests.testbed.rtvm import RtVm
from tests.testbed.waiting import run_logged
from tests.testbed.waiting import wait_for

#: Seconds that one command may take inside: far more than it needs, as the
#: CPUs are emulated, and the machine may do other things as well.
PATIENCE = 900.0

#: What the tests use, beside what a machine needs itself.
PACKAGES = (
    "containernetworking-plugins",
    "gcc",
    "iperf3",
    "libc6-dev",
    "libvirt-daemon-driver-lxc",
    "lxc",
)

#: Where the server of warm.py listens inside.
_PORT = 4720
_WARM = pathlib.Path(__file__).with_name("warm.py")
_CLIENT = (
    "set -e; exec 3<> /dev/tcp/127.0.0.1/$1; "
    "cat >&3; printf '\\n' >&3; cat <&3"
)


def place() -> paths.Paths:
    """Return directories that no test cloud uses at the same time."""
    shared = paths.Paths.from_environment()
    state = shared.state.with_name(f"{shared.state.name}-vm")
    return paths.Paths(cache=shared.cache, state=state)


def cable() -> pathlib.Path:
    """Return the socket where another machine finds rt-1's wire."""
    return place().state / "vm/rt-1/cable.sock"


def neighbour(name: str, number: int, vfs: int) -> Machine:
    """Describe a small host at the other end of rt-1's wire.

    One at a time: the wire has two ends.

    :param name: host name.
    :param number: in its MAC addresses.
    :param vfs: that each of its PFs has from the start.
    """
    return dataclasses.replace(
        Machine.ordinary(name, number),
        cpus=2,
        memory_mb=768,
        hugepages=0,
        vfs=vfs,
        libvirt=False,
        cable=Cable(cable(), listens=False),
    )


class SharedVm(RtVm):
    """Rt-1, where a test that can't go on is skipped for another run.

    tests/again.py repeats what was skipped for that, with a new rt-1.
    """

    hangs = False

    def run(self, *arguments: Any, **keywords: Any) -> Result:
        """Run a command in the machine to its end, as RtVm.run().

        :raises unittest.SkipTest: when the machine hangs and the tests
            are run once more.
        """
        with self._skipping():
            return super().run(*arguments, **keywords)

    def spawn(self, *arguments: Any, **keywords: Any) -> Job:
        """Start a command and leave it running, as RtVm.spawn().

        :raises unittest.SkipTest: as run().
        """
        with self._skipping():
            return super().spawn(*arguments, **keywords)

    def status(self, *arguments: Any, **keywords: Any) -> int | None:
        """Return a job's exit status, as RtVm.status().

        :raises unittest.SkipTest: as run().
        """
        with self._skipping():
            return super().status(*arguments, **keywords)

    def kill(self, *arguments: Any, **keywords: Any) -> None:
        """End a job and its session, as RtVm.kill().

        :raises unittest.SkipTest: as run().
        """
        with self._skipping():
            super().kill(*arguments, **keywords)

    @contextlib.contextmanager
    def _skipping(self) -> Iterator[None]:
        try:
            if self.hangs:
                raise errors.MachineHangs(
                    self.machine.name, "it did so before"
                )
            yield
        except errors.MachineHangs as error:
            self.hangs = True
            if not os.environ.get(again.VARIABLE):
                raise
            raise unittest.SkipTest(f"{error}; {again.REPEATED}") from error


@functools.cache
def _shared() -> SharedVm:
    directories = place()
    directories.make()
    wanted = (*RtVm.packages(), *PACKAGES)
    packages.install(wanted, directories.log / "apt.log")
    vm = SharedVm(directories, Machine(cable=Cable(cable(), listens=True)))
    vm.stop()
    atexit.register(vm.stop)
    return vm


def machine() -> RtVm:
    """Boot rt-1, once for all tests of a process, and end it with that.

    One that hangs is replaced.
    """
    vm = _shared()
    if vm.hangs or not vm.running:
        vm.stop()
        _warm.cache_clear()
        vm.start()
        vm.wait_ready(Progress(sys.stderr).say)
        vm.hangs = False
    return vm


@functools.cache
def product() -> PythonEnv:
    """Install sriov-rt and what it requires, and nothing of OpenStack."""
    directories = place()
    directories.make()
    log = directories.log / "pip.log"
    project = tomllib.loads((paths.CHECKOUT / "pyproject.toml").read_text())
    tools = ("wheel", *project["build-system"]["requires"])
    requirements = (paths.CHECKOUT / "requirements.txt").read_text()
    pins = python_env.pins().read_text()
    text = "\n".join((sys.version, *tools, requirements, pins))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    env = PythonEnv(directories.cache / f"venv-vm-{key}")
    if not (env.root / ".tools-installed").exists():
        run_logged(
            (sys.executable, "-m", "venv", "--clear", str(env.root)),
            timeout=PATIENCE,
            log=log,
        )
        pip = env.program("pip")
        run_logged((pip, "install", *tools), timeout=PATIENCE, log=log)
        (env.root / ".tools-installed").touch()
    env.install_project(log)
    return env


@functools.cache
def _warm(vm: RtVm) -> int:
    """Start the server of warm.py in a machine and return its port."""
    log = place().log / f"warm-{vm.machine.name}.log"
    log.unlink(missing_ok=True)
    python = product().program("python")
    job = vm.spawn((python, "-I", str(_WARM), str(_PORT)), log=log)
    probe = ("bash", "-c", f"exec 3<> /dev/tcp/127.0.0.1/{_PORT}")

    def listens() -> bool:
        if vm.status(job) is not None:
            raise errors.ProcessDied(_WARM.name, log)
        return vm.run(probe, check=False).status == 0

    wait_for(f"{_WARM.name} listens", listens, timeout=PATIENCE)
    return _PORT


def command(vm: RtVm, *arguments: str, stdin: str = "") -> Result:
    """Run the command of the project inside, in a warm interpreter.

    :param vm: a machine since its start.
    :param arguments: of sriov-rt.
    :param stdin: what it reads.
    """
    request = json.dumps({"arguments": arguments, "stdin": stdin})
    answer = vm.run(
        ("bash", "-c", _CLIENT, "-", str(_warm(vm))),
        timeout=PATIENCE,
        stdin=request.encode(),
    )
    if not answer.stdout:
        raise errors.TestbedError(
            f"sriov-rt {' '.join(arguments)} died; see the log of warm.py"
        )
    got = json.loads(answer.stdout)
    return Result(
        ("sriov-rt", *arguments),
        got["status"],
        got["stdout"].encode(),
        got["stderr"].encode(),
    )


class VmTestCase(unittest.TestCase):
    """A test inside rt-1.

    :cvar vm: the machine, ready.
    """

    vm: ClassVar[RtVm]

    @classmethod
    def setUpClass(cls) -> None:
        """Have the machine."""
        super().setUpClass()
        cls.vm = machine()

    def sh(self, script: str, *, check: bool = True) -> Result:
        """Run a shell script inside.

        :param script: for bash.
        :param check: whether an exit status other than 0 is an error.
        """
        return self.vm.run(
            ("bash", "-c", script), timeout=PATIENCE, check=check
        )

    @classmethod
    def sriov_rt(cls, *arguments: str, stdin: bytes = b"") -> Result:
        """Run the command of the project inside.

        :param arguments: of sriov-rt.
        :param stdin: what it reads.
        """
        return cls.vm.run(
            (product().program("sriov-rt"), *arguments),
            timeout=PATIENCE,
            check=False,
            stdin=stdin,
        )

    @classmethod
    def command(cls, *arguments: str, stdin: str = "") -> Result:
        """Run the command of the project inside, in a warm interpreter.

        :param arguments: of sriov-rt.
        :param stdin: what it reads.
        """
        return command(cls.vm, *arguments, stdin=stdin)
