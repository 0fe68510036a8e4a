# SPDX-License-Identifier: Apache-2.0

"""One process of the cloud that can be started, watched and stopped."""

import dataclasses
import pathlib
import signal
from collections.abc import Callable
from collections.abc import Mapping

from tests.testbed import errors
from tests.testbed import paths
from tests.testbed.process import Record
from tests.testbed.process import start
from tests.testbed.process import stop
from tests.testbed.waiting import wait_for


def _at_once() -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class Service:
    """A process, and how to find out that it is ready.

    :param name: unique in the cloud, as in "nova-api".
    :param command: program and arguments.
    :param environment: its whole environment.
    :param ready: returns true once it is ready; may raise OSError before.
    :param ready_seconds: how long that may take.
    :param grace_seconds: how long it has to exit after a signal.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready: Callable[[], object] = _at_once
    ready_seconds: float = 90.0
    grace_seconds: float = 10.0

    def start(self, place: paths.Paths) -> None:
        """Start it, unless it runs.

        :param place: the directories of the cloud.
        :raises OSError: when the program can't be started.
        """
        if running(self.name, place):
            return
        record = start(
            self.name,
            self.command,
            log=output(self.name, place),
            environment=self.environment,
        )
        record.save(place.run)

    def wait(self, place: paths.Paths) -> None:
        """Wait until it is ready.

        :param place: the directories of the cloud.
        :raises errors.ProcessDied: when it ends meanwhile.
        :raises errors.TimedOut: when it takes too long.
        """
        log = output(self.name, place)

        def probe() -> bool:
            if not running(self.name, place):
                raise errors.ProcessDied(self.name, log)
            return bool(self.ready())

        wait_for(
            f"{self.name} is ready ({log})",
            probe,
            timeout=self.ready_seconds,
        )

    def stop(
        self, place: paths.Paths, how: signal.Signals = signal.SIGTERM
    ) -> None:
        """Stop it with all that it started, if it is running.

        :param place: the directories of the cloud.
        :param how: SIGKILL to give it no chance to clean up.
        :raises errors.TimedOut: when it can't be stopped.
        """
        try:
            record = Record.load(place.run / f"{self.name}.json")
        except FileNotFoundError:
            return
        grace = 0.0 if how is signal.SIGKILL else self.grace_seconds
        stop(record.identity, grace=grace, first=how)


def running(name: str, place: paths.Paths) -> bool:
    """Return whether a process of this name was started and hasn't ended.

    :param name: the name of the service.
    :param place: the directories of the cloud.
    """
    try:
        record = Record.load(place.run / f"{name}.json")
    except FileNotFoundError:
        return False
    return record.identity.alive


def output(name: str, place: paths.Paths) -> pathlib.Path:
    """Return the file with what a service printed.

    :param name: the name of the service.
    :param place: the directories of the cloud.
    """
    return place.log / f"{name}.out"
