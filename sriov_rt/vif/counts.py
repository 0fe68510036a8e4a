# SPDX-License-Identifier: Apache-2.0

"""Counting of operations on ports, for the agent's metrics."""

import contextlib
import logging
import os
import pathlib
from collections.abc import Iterator

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.host import port_counts

LOG = logging.getLogger(__name__)

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

OK = "ok"

#: The most operations that one call counts.
_MOST = 65536


def _add(descriptor: int, number: int) -> None:
    try:
        os.write(descriptor, b"." * number)
    except OSError:
        # A hole takes no room, and the failure of a full disk is counted.
        os.ftruncate(descriptor, os.fstat(descriptor).st_size + number)


class Counts:
    """Counts operations on ports; an operation it cannot count is skipped.

    :param directory: where the counts are kept; None to count nothing.
    """

    def __init__(self, directory: pathlib.Path | None = None) -> None:
        self._directory = directory

    def add(self, operation: str, result: str, number: int = 1) -> None:
        """Count operations that have ended.

        :param operation: such as ``plug``.
        :param result: OK, or the name of an error.
        """
        if self._directory is None or number <= 0:
            return
        path = self._directory / f"{operation}.{result}"
        try:
            files.make_directory(self._directory)
            descriptor = os.open(path, _FLAGS, 0o644)
            try:
                _add(descriptor, min(number, _MOST))
            finally:
                os.close(descriptor)
        except OSError as error:
            # The port does not depend on its count.
            LOG.debug("%s: not counted (%s)", path.name, error)

    @contextlib.contextmanager
    def failures(self, operation: str) -> Iterator[None]:
        """Count an error that is raised inside, by its class's name."""
        try:
            yield
        except exceptions.SriovRtError as error:
            self.add(operation, type(error).__name__)
            raise


NOT_COUNTED = Counts()


def of_host() -> Counts:
    """Return the counts of this host, which its agent reads."""
    return Counts(pathlib.Path("/") / port_counts.DIRECTORY)
