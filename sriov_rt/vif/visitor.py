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

"""The calling thread in another network namespace for a moment.

Another one that is woken to go there takes 0.1 ms and more, with the GIL to
be had by two instead of one: more than all that is done there. But where the
first thread of a process is, everybody finds in /proc/PID/ns/net, and takes
the process for one of the namespace: that one sends another.
"""

import ctypes
import functools
import logging
import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

#: include/uapi/linux/sched.h.
CLONE_NEWNET = 0x40000000

#: The namespace of the calling thread.
OWN = "/proc/thread-self/ns/net"


def visit(descriptor: int, action: Callable[[], _T]) -> _T:
    """Return what a function returns when called in a namespace.

    The process ends if there is no way back, which the kernel gives no
    reason for: who may enter his own is sure before he leaves. Nothing may
    go on in a tenant's namespace, and what is in progress is in the journal.

    :param descriptor: of the namespace.
    :param action: short, and never waits.
    :raises OSError: if the namespace cannot be entered; and whatever else
        the function raises.
    """
    if threading.get_native_id() != os.getpid():
        return _visit(descriptor, action)
    with futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(_visit, descriptor, action).result()


def _visit(descriptor: int, action: Callable[[], _T]) -> _T:
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(home)
        try:
            enter(descriptor)
            return action()
        finally:
            _back(home)
    finally:
        os.close(home)


def _back(home: int) -> None:
    try:
        enter(home)
    except OSError as error:
        LOG.critical("no way back to the own namespace (%s): ends", error)
        os.abort()


def enter(descriptor: int) -> None:
    """Move the calling thread; os.setns comes with Python 3.12 only.

    :raises OSError: if it cannot be.
    """
    if _setns()(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


@functools.cache
def _setns() -> Callable[[int, int], int]:
    # The program's own symbols: no library has to be found. It takes 2 us,
    # for which the GIL is not worth to be given away.
    return ctypes.PyDLL(None, use_errno=True).setns
