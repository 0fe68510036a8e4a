# SPDX-License-Identifier: Apache-2.0

"""Figures of this host's last certificates.

A certificate has only the worst latency of each CPU, but later measurements
are compared with the whole distribution. So that is kept as well, even after
the certificate is withdrawn, expires or is replaced.
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

#: Figures below a host's root, in a directory for each certificate.
PATH = pathlib.Path("var/lib/sriov-rt-verify/figures")

#: Number of certificates whose figures are kept.
MOST = 4


def keep(
    root: pathlib.Path, issued_at: float, found: Iterable[Result]
) -> None:
    """Keep the figures of a certificate, and drop the oldest ones.

    If they cannot be written, that is logged, and the certificate stays valid.

    :param root: of the host, ``/``.
    :param issued_at: Unix time in seconds.
    """
    name = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime(issued_at))
    try:
        kept = Results(root / PATH / name)
        for each in found:
            kept.put(each)
        others = [x for x in _directories(root) if x.name != name]
        # If the clock was ahead before, the others look newer.
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

    If the measurement earned a certificate itself, that one is left out.

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
            continue  # left by a run that was killed while writing
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
