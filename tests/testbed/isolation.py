# SPDX-License-Identifier: Apache-2.0

"""Namespaces of a single thread: a small host that ends with it."""

import ctypes
import os
import subprocess

#: include/uapi/linux/sched.h.
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000


def sh(*command: str) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def leave() -> None:
    """Move the calling thread into namespaces of its own.

    Threads and processes that it starts are there, too. Its links, /sys,
    /run/netns and all that it makes there are gone when they have ended.

    :raises OSError: EPERM for users other than root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "sysfs", "sysfs", "/sys")
    sh("mkdir", "-p", "/run/netns")
    sh("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
    sh("ip", "link", "set", "lo", "up")


def wire(name: str, peer: str) -> None:
    """Make two interfaces with a cable between them, up."""
    sh("ip", "link", "add", name, "type", "veth", "peer", "name", peer)
    sh("ip", "link", "set", name, "up")
    sh("ip", "link", "set", peer, "up")
