# SPDX-License-Identifier: Apache-2.0

"""Culprits that are planted on CPU 2 of an emulated realtime host.

Run inside: ``python culprits.py NAME`` has the CPU for 100 ms, a few times a
second, until it is ended. Figures of an emulated CPU are milliseconds, so that
a culprit has to have it for long.
"""

import os
import sys
import time

CPU = 2
BUSY_S = 0.1
PAUSE_S = 0.4


def thread() -> None:
    """A thread of a higher priority than any measurement."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(98))
    while True:
        until = time.monotonic() + BUSY_S
        while time.monotonic() < until:
            pass
        time.sleep(PAUSE_S)


def main() -> None:
    """Plant the culprit of the name that is given."""
    (name,) = sys.argv[1:]
    os.sched_setaffinity(0, {CPU})
    {"thread": thread}[name]()


if __name__ == "__main__":
    main()
