# SPDX-License-Identifier: Apache-2.0

"""Figures of this host's last certificates.

A certificate names the worst latency of each CPU; what a later measurement is
compared with is the whole distribution. It is kept beside the certificate,
whatever becomes of that: it may be withdrawn, expire or be replaced.
"""

import logging
import pathlib
import shutil
import time
from collections.abc import Iterable

from sriov_rt import exceptions
from sriov_rt.verify import collection
from sriov_rt.verify import errors
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.results import Result
from sriov_rt.verify.results import Results

LOG = logging.getLogger(__name__)

#: Below the root of a host; a directory for each certificate.
PATH = pathlib.Path("var/lib/sriov-rt-verify/figures")

#: Certificates whose figures are kept.
MOST = 4


def keep(
    root: pathlib.Path, issued_at: float, found: Iterable[Result]
) -> None:
    """Keep the figures of a certificate, and drop the oldest ones.

    Without them the host has a certificate all the same: that they cannot be
    written is logged.

    :param root: of the host, ``/``.
    :param issued_at: Unix time in seconds.
    """
    name = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime(issued_at))
    try:
        kept = Results(root / PATH / name)
        for each in found:
            kept.put(each)
        others = [x for x in _directories(root) if x.name != name]
        # The clock may have been ahead: the others then look newer.
        for old in others[MOST - 1 :]:
            shutil.rmtree(old)
    except OSError as error:
        LOG.warning(
            "cannot write the figures of the certificate to /%s (%s): "
            "'verify compare' will compare with those before",
            PATH,
            error.strerror or error,
        )


def last(root: pathlib.Path, after: Collection) -> Collection:
    """Return the figures of the last certificate before a measurement.

    A measurement that has earned a certificate itself is among them, and is
    not compared with itself.

    :raises SriovRtError: if there are none.
    """
    began = min(
        (each.measurement.started_at for each in after.latency.values()),
        default=0.0,
    )
    for directory in _directories(root):
        try:
            (found,) = collection.read([directory])
        except errors.NothingMeasured:
            continue  # of a kill before the first file was whole
        if found.latency and all(
            each.measurement.started_at < began
            for each in found.latency.values()
        ):
            return found
    raise exceptions.SriovRtError(
        f"/{PATH} has no figures of a certificate from before this "
        "measurement; name the directory of one: 'sriov-rt verify compare "
        "BEFORE AFTER'"
    )


def _directories(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the directories of figures, the newest first."""
    found = (each for each in (root / PATH).glob("*T*Z") if each.is_dir())
    return sorted(found, reverse=True)
