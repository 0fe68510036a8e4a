# SPDX-License-Identifier: Apache-2.0

"""The feature file that the agent keeps for NFD's local source."""

import logging
import math
import pathlib
import time
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.facts import HostFacts
from sriov_rt.labels import own

LOG = logging.getLogger(__name__)


class FeatureFile:
    """Keep the file up to date, and renew it before it expires.

    :param expiry_s: seconds until the file expires for NFD.
    :param wall: Unix time, seconds.
    """

    def __init__(
        self,
        path: pathlib.Path,
        expiry_s: float,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._expiry_s = expiry_s
        self._wall = wall
        self._written: Mapping[str, str] = {}
        self._expires_at = -math.inf
        self._problem = ""

    def update(self, facts: HostFacts) -> None:
        """Write the file if its content changes, or it expires soon."""
        now = self._wall()
        named = own.of(facts, now)
        # Soon: half of its lifetime is over, or the clock was set back.
        fresh = self._expiry_s / 2 <= self._expires_at - now <= self._expiry_s
        if named == self._written and fresh:
            return
        expires_at = now + self._expiry_s
        try:
            files.replace(
                self._path, own.text(named, expires_at).encode(), 0o644
            )
        except OSError as error:
            self._failed(error)
            return
        self._written, self._expires_at = named, expires_at
        self._problem = ""

    def remove(self) -> None:
        """Remove the file, since a stopped agent can't confirm its labels."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        # The old file expires by itself.
        if str(error) != self._problem:
            self._problem = str(error)
            LOG.warning(
                "the feature file for NFD cannot be changed (%s); %s",
                exceptions.plain(error),
                files.remedy(
                    error,
                    "allow sriov-rt-agent's user to write in "
                    f"{self._path.parent}, or set [labels] feature_file = "
                    "false",
                ),
            )
