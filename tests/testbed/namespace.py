# SPDX-License-Identifier: Apache-2.0

"""The cloud's own world: network, mounts, processes, cgroups, host name.

Everything of the cloud runs below one process, the supervisor, which is the
first process of a process namespace. However it ends, the kernel then kills
the others and removes mounts and interfaces.
"""

import dataclasses
import hashlib
import os
import pathlib
import signal
import sys
import time
from collections.abc import Sequence

from tests.testbed import cgroups
from tests.testbed import errors
from tests.testbed import loops
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed import remains
from tests.testbed import settings
from tests.testbed.identity import ProcessId
from tests.testbed.process import Record
from tests.testbed.process import start
from tests.testbed.waiting import wait_for

#: Variable of all programs inside, with the state directory of their cloud.
INSIDE_VARIABLE = "SRIOV_RT_INSIDE"
_SUPERVISOR = "supervisor"


@dataclasses.dataclass(frozen=True)
class Namespace:
    """The set of namespaces that belongs to one state directory.

    :param place: the directories of the cloud.
    """

    place: paths.Paths

    @property
    def inside(self) -> bool:
        """Whether this process is in it already."""
        return os.environ.get(INSIDE_VARIABLE) == str(self.place.state)

    @property
    def init(self) -> ProcessId | None:
        """Its first process as seen from outside, None when it isn't up."""
        try:
            record = Record.load(self._file(f"{_SUPERVISOR}.json"))
        except FileNotFoundError:
            return None
        pid = record.identity.pid
        try:
            text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except FileNotFoundError:
            return None
        if not record.identity.alive or not text.split():
            return None
        return ProcessId.of(int(text.split()[0]))

    def create(self) -> None:
        """Make the namespaces, unless they are up.

        :raises errors.TestbedError: when the supervisor doesn't come up.
        """
        if self.init is not None:
            return
        self.place.make()
        # Two clouds on one machine have two state directories.
        key = hashlib.sha256(str(self.place.state).encode()).hexdigest()[:8]
        groups = cgroups.plan(f"sriov-rt-{key}")
        cgroups.save(groups, self._file("cgroups.json"))
        cgroups.make(groups)
        try:
            launcher = self._launch()
            init = self.init
            if init is None:
                raise errors.ProcessDied(_SUPERVISOR, launcher.log)
            for pid in (launcher.identity.pid, init.pid):
                cgroups.join(groups, pid)
            remains.Traces.of(init).save(self._file("namespaces.json"))
        except errors.TestbedError:
            self.destroy()
            raise

    def _launch(self) -> Record:
        """Start the supervisor and wait until it is ready."""
        ready = self._file("supervisor.ready")
        ready.unlink(missing_ok=True)
        record = start(
            _SUPERVISOR,
            (sys.executable, "-m", "tests.testbed.supervisor", "launch"),
            log=self.place.log / f"{_SUPERVISOR}.log",
            environment=self.environment(),
        )
        record.save(self.place.run)
        wait_for(
            f"the supervisor is ready ({record.log})",
            lambda: ready.exists() or not record.identity.alive,
            timeout=120,
            interval=0.05,
        )
        if not ready.exists():
            raise errors.ProcessDied(_SUPERVISOR, record.log)
        return record

    def destroy(self) -> None:
        """Stop everything in them, and check that nothing is left.

        :raises errors.TestbedError: when something of it stays.
        """
        traces = remains.Traces.load(self._file("namespaces.json"))
        groups = cgroups.load(self._file("cgroups.json"))
        # In the unit of a process's start in /proc/PID/stat (proc(5)).
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        ticks = int(now * os.sysconf("SC_CLK_TCK"))
        self._end()
        loops.detach(self.place.state)
        cgroups.remove(groups)
        left = remains.find(traces, groups, self.place.state, ticks)
        if left:
            raise errors.TestbedError(
                "the cloud has left behind: " + "; ".join(left)
            )
        # Later namespaces may have the same numbers.
        self._file("namespaces.json").unlink(missing_ok=True)

    def _end(self) -> None:
        init = self.init
        if init is not None:
            init.signal(signal.SIGKILL)
            wait_for(
                "the cloud's processes end",
                lambda: not init.alive,
                timeout=30,
                interval=0.05,
            )
        record_file = self._file(f"{_SUPERVISOR}.json")
        if record_file.exists():
            launcher = Record.load(record_file).identity
            launcher.signal(signal.SIGKILL)
            wait_for(
                "the supervisor ends",
                lambda: not launcher.alive,
                timeout=10,
                interval=0.05,
            )
            record_file.unlink()

    def enter(self, command: Sequence[str]) -> None:
        """Become a program inside; doesn't return.

        :param command: program and arguments; `python`, `openstack` and their
            like are those of the cloud's Python environment.
        :raises errors.TestbedError: when it isn't up.
        """
        init = self.init
        if init is None:
            raise errors.TestbedError(
                f"no cloud runs in {self.place.state}; bring one up with "
                "`tools/demo`"
            )
        groups = cgroups.load(self._file("cgroups.json"))
        cgroups.join(groups, os.getpid())
        flags = ("--net", "--mount", "--uts", "--ipc", "--cgroup", "--pid")
        os.execvpe(
            "nsenter",
            [
                "nsenter",
                f"--target={init.pid}",
                *flags,
                f"--wdns={pathlib.Path.cwd()}",
                "--",
                *command,
            ],
            self.environment(),
        )

    def _file(self, name: str) -> pathlib.Path:
        return self.place.run / name

    def environment(self) -> dict[str, str]:
        """Return the environment of programs inside.

        It is ours, with the programs of the cloud's Python environment and the
        variables by which clients find the cloud.
        """
        found = {
            name: value
            for name, value in os.environ.items()
            # The machine's proxy can't reach the cloud's own network.
            if not name.lower().endswith("_proxy")
        }
        found |= settings.client_environment()
        env = python_env.PythonEnv.in_cache(self.place.cache)
        found["PATH"] = f"{env.bin}:{found.get('PATH', os.defpath)}"
        found["PYTHONPATH"] = str(paths.CHECKOUT)
        # The message queue of sriov-rt's commands and agents (oslo.config).
        found["OS_SRIOV_RT__TRANSPORT_URL"] = settings.TRANSPORT_URL
        found["SRIOV_RT_STATE"] = str(self.place.state)
        found["SRIOV_RT_CACHE"] = str(self.place.cache)
        found[INSIDE_VARIABLE] = str(self.place.state)
        return found
