# SPDX-License-Identifier: Apache-2.0

"""CPUs of this machine that a test pins something to, for one test at a time.

A guest is not given a CPU that another program is pinned to, and what the
guests of another test's libvirt are nobody here knows.
"""

import contextlib
import fcntl
import pathlib
import tempfile
from collections.abc import Iterator

_LOCK = pathlib.Path(tempfile.gettempdir()) / "sriov-rt-pinned-tests.lock"

_inside = 0


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep the tests of other processes from pinning anything."""
    global _inside
    with contextlib.ExitStack() as stack:
        if not _inside:
            lock = stack.enter_context(_LOCK.open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        _inside += 1
        try:
            yield
        finally:
            _inside -= 1
