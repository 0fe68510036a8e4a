# SPDX-License-Identifier: Apache-2.0

"""Unambiguous identities of processes.

A process is identified by its pid and start time together, so that no other
process that has got the pid meanwhile is ever signalled.
"""

import dataclasses
import os
import pathlib
import signal

_STAT_STATE = 0
_STAT_PARENT = 1
_STAT_SESSION = 3
_STAT_START_TIME = 19


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name (proc(5))."""
    return _stat_of(pathlib.Path(f"/proc/{pid}/stat"))


def _stat_of(path: pathlib.Path) -> list[str] | None:
    try:
        # A process's name may have any bytes.
        data = path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return data.rpartition(b")")[2].decode("ascii").split()


@dataclasses.dataclass(frozen=True)
class ProcessId:
    """One process, past or present.

    :param pid: its number.
    :param start_time: clock ticks from boot to its start (proc(5)).
    """

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> "ProcessId":
        """Identify a process that runs now.

        :param pid: its number.
        :raises ProcessLookupError: when there is none.
        """
        fields = _stat(pid)
        if fields is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, int(fields[_STAT_START_TIME]))

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie doesn't."""
        fields = _stat(self.pid)
        return (
            fields is not None
            and int(fields[_STAT_START_TIME]) == self.start_time
            and fields[_STAT_STATE] not in "ZX"
        )

    @property
    def stopped(self) -> bool:
        """Whether SIGSTOP has stopped all of its threads."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task")
        states = [_stat_of(each / "stat") for each in tasks.iterdir()]
        return all(each is None or each[_STAT_STATE] == "T" for each in states)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, or do nothing when it has ended.

        :param number: the signal.
        :raises PermissionError: when it isn't ours to signal.
        """
        if not self.alive:
            # A thread may have its number now, which pidfd_open(2) refuses
            # with ENOENT since Linux 6.16, and with EINVAL before.
            return
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)


def family(identity: ProcessId) -> tuple[ProcessId, ...]:
    """Return a process, its descendants and the members of its session.

    Members of the session are found even when their parents have ended.

    :param identity: a process that was started by start().
    """
    parents: dict[int, int] = {}
    found: dict[int, ProcessId] = {}
    for entry in pathlib.Path("/proc").iterdir():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else None
        if fields is None or fields[_STAT_STATE] in "ZX":
            continue
        pid, started = int(entry.name), int(fields[_STAT_START_TIME])
        parents[pid] = int(fields[_STAT_PARENT])
        in_session = int(fields[_STAT_SESSION]) == identity.pid
        if started >= identity.start_time and (
            pid == identity.pid or in_session
        ):
            found[pid] = ProcessId(pid, started)
    growing = bool(found)
    while growing:
        growing = False
        for pid, parent in parents.items():
            if parent in found and pid not in found:
                fields = _stat(pid)
                if fields is not None:
                    found[pid] = ProcessId(pid, int(fields[_STAT_START_TIME]))
                    growing = True
    return tuple(found.values())
