# SPDX-License-Identifier: Apache-2.0

"""Ctrl-C in a test: a real SIGINT to this process."""

import os
import signal
import unittest


def accept(test: unittest.TestCase) -> None:
    """Take it as Python does; a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    test.addCleanup(signal.signal, signal.SIGINT, before)


def send(*_args: object) -> None:
    """Send it."""
    os.kill(os.getpid(), signal.SIGINT)
