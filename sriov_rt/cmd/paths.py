# SPDX-License-Identifier: Apache-2.0

"""Files named in a command line: bounded reads and atomic writes."""

import logging
import os
import pathlib
import threading

from sriov_rt import codec
from sriov_rt import exceptions
from sriov_rt import facts as host_facts
from sriov_rt import files

_FACTS = "what 'sriov-rt host show --json' prints"


class InputUnusable(exceptions.SriovRtError):
    """A file or directory can't be read, or is not what is needed.

    :param path: the path as it was given.
    :param problem: a clause.
    :param needed: what to give instead.
    """

    def __init__(self, path: pathlib.Path, problem: str, needed: str) -> None:
        self.path = path
        self.problem = problem
        self.needed = needed
        super().__init__(f"{path}: {problem}; give {needed}")


class OutputUnusable(exceptions.SriovRtError):
    """A file can't be written.

    :param path: the path as it was given.
    :param problem: a clause, and what to do.
    """

    def __init__(self, path: pathlib.Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path} cannot be written: {problem}")


def read(path: pathlib.Path, limit: int, needed: str) -> bytes:
    """Return the content of a regular file, at most a byte above the limit.

    That byte shows the parser that the file is too long.

    :param needed: what file is needed, for the error.
    :raises InputUnusable: if it can't be read or is not a regular file: a
        FIFO would block, and a device has no end.
    """
    try:
        return files.read(path, limit)
    except OSError as error:
        problem = error.strerror or str(error)
        raise InputUnusable(path, problem, needed) from None


def facts(path: pathlib.Path) -> host_facts.HostFacts:
    """Return the facts of a host from a file.

    :raises InputUnusable: if it can't be read, or has no facts.
    """
    text = read(path, host_facts.MAX_DOCUMENT, _FACTS)
    try:
        return host_facts.from_json(text)
    except codec.SchemaError as error:
        raise InputUnusable(path, str(error), _FACTS) from None


def facts_in(path: pathlib.Path) -> list[host_facts.HostFacts]:
    """Return the facts from a file, or from a directory's ``*.json``.

    :raises InputUnusable: if a file can't be read, or there is none.
    """
    found = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not found:
        problem = "no *.json file in this directory"
        raise InputUnusable(path, problem, _FACTS)
    return [facts(each) for each in found]


def kubeconfig() -> str | None:
    """Return the kubeconfig files that kubectl would read; None if none."""
    default = pathlib.Path.home() / ".kube" / "config"
    found = str(default) if default.exists() else None
    return os.environ.get("KUBECONFIG") or found


def check_writable(path: pathlib.Path) -> None:
    """Check that a file can be written, before there is anything to write.

    :raises OutputUnusable: if its directory is missing, or it is a directory.
    """
    parent = path.parent
    if path.is_dir():
        raise OutputUnusable(path, "it is a directory; name a file in it")
    if not parent.exists():
        raise OutputUnusable(
            path,
            f"directory {parent} does not exist; make it with 'mkdir -p "
            f"{parent}', or name another",
        )
    if not parent.is_dir():
        raise OutputUnusable(
            path, f"{parent} is not a directory; name a file in one"
        )


def write(path: pathlib.Path, data: bytes) -> None:
    """Write a file atomically, readable by all.

    A device or a FIFO, such as ``/dev/stdout``, is not replaced but written
    to.

    :raises OutputUnusable: if that fails.
    """
    check_writable(path)
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            # Replace a link's target: the link itself must stay. The new file
            # has a unique name, in case there is a second writer.
            found = path.resolve()
            new = found.with_name(f".{found.name}.{threading.get_native_id()}")
            files.replace(new, data, 0o644)
            try:
                new.replace(found)
            finally:
                new.unlink(missing_ok=True)
    except PermissionError as error:
        problem = f"{error.strerror}; name a place where you may write"
        if os.geteuid():
            problem += ", or run as root"
        raise OutputUnusable(path, problem) from None
    except OSError as error:
        raise _elsewhere(path, error) from None


def _elsewhere(path: pathlib.Path, error: OSError) -> OutputUnusable:
    advice = files.remedy(error, "name another place")
    return OutputUnusable(path, f"{error.strerror or error}; {advice}")


def log_file(path: pathlib.Path) -> logging.Handler:
    """Return a handler that appends log records to a file.

    :raises OutputUnusable: if it can't be opened, or would block as a FIFO.
    """
    check_writable(path)
    if path.is_fifo():
        raise OutputUnusable(path, "it is a FIFO; name a file")
    try:
        return logging.FileHandler(path)
    except OSError as error:
        raise _elsewhere(path, error) from None


def make_directory(path: pathlib.Path) -> None:
    """Make a directory with its parents, and check that it takes files.

    :raises OutputUnusable: if it can't be made or takes no files.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputUnusable(
            path, "it is not a directory; name a directory"
        ) from None
    except NotADirectoryError:
        raise OutputUnusable(
            path, "a part of it is not a directory; name another"
        ) from None
    except OSError as error:
        raise OutputUnusable(
            path, f"{error.strerror}; name another directory"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputUnusable(
            path, "Permission denied; name a directory where you may write"
        )
