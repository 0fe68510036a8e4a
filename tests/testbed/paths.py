# SPDX-License-Identifier: Apache-2.0

"""Directories of the test cloud for downloads and for its state."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping

#: The checkout that this file belongs to.
CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Paths:
    """The two directories of the harness and their parts.

    :param cache: downloads and builds that outlive a cloud, each in a
        directory named after what it was made from.
    :param state: everything of one running cloud.
    """

    cache: pathlib.Path
    state: pathlib.Path

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ
    ) -> "Paths":
        """Read SRIOV_RT_CACHE and SRIOV_RT_STATE, or use the defaults.

        :param environment: the variables to look in.
        """
        cache = environment.get("SRIOV_RT_CACHE") or "~/.cache/sriov-rt"
        state = environment.get("SRIOV_RT_STATE") or "/var/tmp/sriov-rt"
        return cls(
            cache=pathlib.Path(cache).expanduser().resolve(),
            state=pathlib.Path(state).expanduser().resolve(),
        )

    @property
    def run(self) -> pathlib.Path:
        """Process records and sockets."""
        return self.state / "run"

    @property
    def log(self) -> pathlib.Path:
        """A log file per process; kept when the cloud is taken down."""
        return self.state / "log"

    @property
    def etc(self) -> pathlib.Path:
        """Configuration files, written again at each start."""
        return self.state / "etc"

    @property
    def data(self) -> pathlib.Path:
        """Databases, images and instances."""
        return self.state / "data"

    def make(self) -> None:
        """Make the directories.

        :raises OSError: when one can't be made.
        """
        self.cache.mkdir(parents=True, exist_ok=True)
        for directory in (self.run, self.log, self.etc, self.data):
            directory.mkdir(parents=True, exist_ok=True)
