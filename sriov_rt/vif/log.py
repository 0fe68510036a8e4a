# SPDX-License-Identifier: Apache-2.0

"""Prefix of each log line about a port."""

import functools
import os

from sriov_rt.vif.model import Record


def about(port: str | None, vf: str | None = None) -> str:
    """Return the prefix by which to search the logs of a cloud.

    :param vf: PCI address of the VF that the port is or sits on.
    """
    return f"port={port or '-'} vf={vf or '-'} host={_host()}"


def of(record: Record) -> str:
    """Return the prefix for a port that has a record."""
    return about(record.port, record.vf)


@functools.cache
def _host() -> str:
    return os.uname().nodename or "-"
