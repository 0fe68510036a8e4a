# SPDX-License-Identifier: Apache-2.0

"""Measurements in a directory, so that a run can be resumed."""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import ExitStack
from contextlib import contextmanager
from typing import TypeVar

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import files
from sriov_rt.verify.errors import Busy
from sriov_rt.verify.machine import UNKNOWN
from sriov_rt.verify.machine import Machine
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Step

T = TypeVar("T")

#: Schema version of each file of results.
SCHEMA_VERSION = 1

#: The longest file, in bytes: 1,024 CPUs with their histograms and maxima.
MAX_FILE = 256 * 1024 * 1024


def lock_of(user: int) -> pathlib.Path:
    """Return the file that a user locks during any measurement.

    Root's file is where nobody else can lock it: a lock keeps ``verify watch``
    from withdrawing a certificate.
    """
    if user == 0:
        #: Locked while root measures anything.
        return pathlib.Path("/run/sriov-rt-verify.lock")
    place = pathlib.Path(tempfile.gettempdir())
    return place / f"sriov-rt-verify-{user}.lock"


#: Locked while anything on this host is measured.
LOCK = lock_of(os.geteuid())


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """One measurement and how it was made.

    :param load: name of the load.
    :param conditions: what it depends on, including the boot, at its start.
    :param emulated: whether the host is a virtual machine itself; then the
        figures say nothing about hardware.
    """

    step: Step
    load: str
    conditions: Mapping[str, str]
    measurement: Measurement
    emulated: bool = False
    machine: Machine = UNKNOWN


class Results:
    """The directory of one run.

    :param directory: made if it is missing.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory

    def get(self, step: Step) -> Result | None:
        """Return the result of a step; None if there is no complete one.

        A file in another format is ignored, and the step measured again.
        """
        return read(self._path(step))

    def put(self, result: Result) -> pathlib.Path:
        """Write a measurement atomically.

        :raises OSError: if it can't be written.
        """
        path = self._path(result.step)
        keep(path, result)
        return path

    def _path(self, step: Step) -> pathlib.Path:
        return self.directory / f"{step.tool}.json"


def read(path: pathlib.Path) -> Result | None:
    """Return the measurement in a file; None if it has none."""
    found = load(Result, path, MAX_FILE)
    if found and all(each.is_possible for each in found.measurement.cpus):
        return found
    return None


def load(cls: type[T], path: pathlib.Path, limit: int) -> T | None:
    """Return what :func:`keep` wrote; None for any other file.

    :param limit: the longest file, in bytes.
    """
    try:
        data = files.read(path, limit)
        return documents.load(cls, data, limit, SCHEMA_VERSION)
    except (OSError, codec.SchemaError):
        return None


def load_all(
    cls: type[T], directory: pathlib.Path, pattern: str, limit: int
) -> list[T]:
    """Return what :func:`keep` wrote into a directory, in order of names.

    :param pattern: pattern of names; files that are no results are ignored.
    """
    paths = sorted(directory.glob(pattern))
    found = (load(cls, each, limit) for each in paths)
    return [each for each in found if each is not None]


def keep(path: pathlib.Path, result: object) -> None:
    """Write a result atomically.

    :param path: the file; its directory is made if it is missing.
    :raises OSError: if it can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = documents.dump(result, SCHEMA_VERSION)
    files.replace(path, data, 0o644, durable=True)


@contextmanager
def exclusive(lock: pathlib.Path = LOCK) -> Iterator[None]:
    """Prevent other measurements on this host meanwhile.

    :raises Busy: if another one is running.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(files.locked(lock))
        except BlockingIOError:
            raise Busy(str(lock)) from None
        yield
