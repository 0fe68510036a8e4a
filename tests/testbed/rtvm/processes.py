# SPDX-License-Identifier: Apache-2.0

"""The processes of one machine: QEMU and the two that share files."""

import contextlib
import fcntl
import os
import pathlib
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import errors
from tests.testbed import process
from tests.testbed.paths import Paths
from tests.testbed.rtvm import commands
from tests.testbed.rtvm import tsc
from tests.testbed.rtvm.assets import Assets
from tests.testbed.rtvm.commands import Files
from tests.testbed.rtvm.machine import Machine
from tests.testbed.waiting import wait_for

#: The kernel says so when a CPU has lost its timer. It says so again after
#: three times as long if that is still so.
_TIMER_LOST = "timer wakeup didn't happen"

#: Seconds in which a machine says nothing while QEMU wants a CPU for less than
#: those. One that boots wants a whole one; one that is idle took 4 s, and on a
#: busy outer machine waited for 20 s more.
SILENT_SECONDS = 60.0
IDLE_SECONDS = 30.0
_LOOK_SECONDS = 1.0

_GUEST = pathlib.Path(__file__).parent / "guest"
_SOCKET_SECONDS = 20.0

#: The emulated machine's drivers have time limits that no test can move: a VF
#: whose PF does not answer in a fraction of a second has no link for the next
#: ten. As a "nice" value: three times the weight of another session's
#: processes (sched(7)).
_PRIORITY = -5

#: In the order in which they are ended.
_PARTS = ("qemu", "virtiofsd-state", "virtiofsd-root")


class Processes:
    """Starts and ends them.

    :param paths: the harness's directories.
    :param machine: what the machine is.
    :param files: where its parts are.
    """

    def __init__(self, paths: Paths, machine: Machine, files: Files) -> None:
        self._paths = paths
        self._machine = machine
        self._files = files

    @property
    def running(self) -> bool:
        """Whether QEMU runs, in this or another pid namespace.

        QEMU keeps a lock on its pid file as long as it lives.
        """
        try:
            with self._files.pidfile.open("r+") as stream:
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @property
    def stages(self) -> list[str]:
        """The stages of the start that were done, even if it ended since."""
        return self._files.progress.read_text().splitlines()

    @property
    def complaints(self) -> int:
        """How often the kernel has said that a timer did not fire."""
        text = self._files.console.read_text(errors="replace")
        return text.count(_TIMER_LOST)

    @property
    def said(self) -> tuple[int, int]:
        """How much the console and the start scripts have said, in bytes."""
        console, progress = self._files.console, self._files.progress
        return console.stat().st_size, progress.stat().st_size

    @property
    def wanted(self) -> float | None:
        """Seconds that QEMU's threads have had a CPU or waited for one.

        :returns: None if it is not seen here, as in another pid namespace.
        """
        try:
            record = process.Record.load(self._record("qemu"))
            if not record.identity.alive:
                return None
            tasks = pathlib.Path(f"/proc/{record.identity.pid}/task")
            # proc_pid_schedstat() of the kernel: nanoseconds.
            nanoseconds = [
                sum(map(int, (each / "schedstat").read_text().split()[:2]))
                for each in tasks.iterdir()
            ]
        except (FileNotFoundError, ProcessLookupError):
            return None
        return sum(nanoseconds) / 1e9

    def start(self, parts: Assets) -> None:
        """Start all of them, with empty files.

        :param parts: what the machine is started with.
        :raises errors.ProcessDied: when one ends at once.
        """
        line = self._kernel_line(parts)
        self.stop()
        shutil.rmtree(self._files.directory, ignore_errors=True)
        self._paths.make()
        self._files.exec.mkdir(parents=True)
        self._files.progress.touch()
        self._files.settings.write_text(self._settings())
        for share, source in (
            (commands.ROOT_SHARE, pathlib.Path("/")),
            (commands.STATE_SHARE, self._paths.state),
        ):
            command = commands.virtiofsd(self._files, share, source)
            socket = self._files.socket(share)
            self._launch(f"virtiofsd-{share}", command, socket)
        command = commands.qemu(
            self._machine,
            self._files,
            emulator=parts.emulator,
            kernel=parts.image,
            initramfs=parts.initramfs,
            arguments=line,
        )
        environment = commands.qemu_environment(parts.emulator)
        self._launch("qemu", command, self._files.pidfile, environment)

    def stop(self) -> None:
        """End all of them; do nothing if none runs.

        :raises errors.TimedOut: when one can't be ended.
        """
        for part in _PARTS:
            path = self._record(part)
            if path.exists():
                process.stop(process.Record.load(path).identity)
                path.unlink()
        for leftover in self._files.directory.glob("*.sock*"):
            leftover.unlink()

    def _launch(
        self,
        part: str,
        command: Sequence[str],
        sign: pathlib.Path,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Start one and wait until it has made the file that is its sign."""
        name = f"{self._machine.name}-{part}"
        log = self._paths.log / f"{name}.log"
        record = process.start(
            name, command, log=log, environment=dict(environment)
        )
        record.save(self._paths.run)
        _prefer(record.identity.pid)

        def started() -> bool:
            if not record.identity.alive:
                raise errors.ProcessDied(name, log)
            return sign.exists()

        wait_for(
            f"{name} starts", started, timeout=_SOCKET_SECONDS, interval=0.02
        )

    def _record(self, part: str) -> pathlib.Path:
        return self._paths.run / f"{self._machine.name}-{part}.json"

    def _settings(self) -> str:
        """Return the variables that the start scripts read."""
        machine = self._machine
        hosts = dict(machine.hosts)
        if machine.address is not None:
            hosts[machine.name] = machine.address.partition("/")[0]
        sysctls = (
            f"{name}={value}" for name, value in machine.sysctls.items()
        )
        values = {
            "NAME": machine.name,
            "ADDRESS": machine.address or "",
            "HOSTS": "\n".join(f"{ip} {name}" for name, ip in hosts.items()),
            "SYSCTLS": " ".join(sysctls),
            "VFS": str(machine.vfs),
            "IDENTITY": machine.identity,
            "LIBVIRT": "yes" if machine.libvirt else "no",
            "PROGRESS": str(self._files.progress),
            "EXEC": str(self._files.exec),
            "PYTHON": sys.executable,
        }
        return "".join(
            f"RTVM_{name}={shlex.quote(value)}\n"
            for name, value in values.items()
        )

    def _kernel_line(self, parts: Assets) -> str:
        """Return the kernel's command line, with what /init has to know."""
        ours = {
            "settings": self._files.settings,
            "state": self._paths.state,
            "guest": _GUEST,
            "modules": parts.modules,
        }
        words = [f"rtvm.{name}={path}" for name, path in ours.items()]
        words.append(f"tsc_early_khz={tsc.frequency_khz()}")
        for word in words:
            if any(character.isspace() for character in word):
                raise errors.TestbedError(
                    f"move it to a path without spaces: {word}"
                )
        return " ".join((self._machine.kernel_line(), *words))


class Pulse:
    """Tells a machine that goes on from one that hangs, from now on.

    A CPU that has lost its timer makes the kernel complain on another one.
    Where there is no other, or all have stopped, nothing is said, and QEMU
    hardly wants a CPU. A busy outer machine is another matter: there QEMU
    waits for one.

    :param processes: of the machine.
    :param new: it has just been started: what it has said counts.
    """

    def __init__(self, processes: Processes, *, new: bool = False) -> None:
        self._processes = processes
        self.restart()
        if new:
            self._complaints = 0

    def restart(self) -> None:
        """Take the machine for alive now."""
        self._complaints = self._processes.complaints
        self._mark()

    def _mark(self) -> None:
        self._said = self._processes.said
        self._wanted = self._processes.wanted
        self._since = self._looked = time.monotonic()

    @property
    def complaint(self) -> str:
        """What the kernel says of a timer; a busy outer machine causes one."""
        if self._processes.complaints > self._complaints + 1:
            return "its kernel misses a timer"
        return ""

    @property
    def silence(self) -> str:
        """That it has said and wanted hardly anything for a minute."""
        now = time.monotonic()
        if now < self._looked + _LOOK_SECONDS:
            return ""
        self._looked = now
        wanted = self._processes.wanted
        if (
            self._said != self._processes.said
            or wanted is None
            or self._wanted is None
            or wanted - self._wanted > IDLE_SECONDS
        ):
            self._mark()
            return ""
        if now < self._since + SILENT_SECONDS:
            return ""
        return (
            f"no word for {now - self._since:.0f} s, in which QEMU wanted a "
            f"CPU for {wanted - self._wanted:.1f} s"
        )


def _prefer(pid: int) -> None:
    """Let a process go before others, if the kernel has groups by session."""
    group = pathlib.Path(f"/proc/{pid}/autogroup")
    # One that ended, no right to, or no groups: it is a help, and no more.
    with contextlib.suppress(OSError):
        group.write_text(str(_PRIORITY))
