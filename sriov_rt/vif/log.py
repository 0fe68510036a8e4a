# SPDX-License-Identifier: Apache-2.0

"""Prefix of each log line about a port."""

import functools
import os


def about(port: str | None, vf: str | None = None) -> str:
    """Return what to search the logs of a cloud for.

    :param vf: PCI address of the VF that the port is or sits on.
    """
    return f"port={port or '-'} vf={vf or '-'} host={_host()}"


@functools.cache
def _host() -> str:
    return os.uname().nodename or "-"
