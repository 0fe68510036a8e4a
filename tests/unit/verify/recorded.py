# SPDX-License-Identifier: Apache-2.0

"""Output of real tools, recorded on a virtual machine."""

import pathlib

_DIRECTORY = pathlib.Path(__file__).with_name("recorded")


def read(name: str) -> bytes:
    """Return the output of a tool."""
    return (_DIRECTORY / name).read_bytes()
