# SPDX-License-Identifier: Apache-2.0

"""The label source ``nfd_local``: feature files on this host."""

import errno
import time
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host.root import ABSENT
from sriov_rt.host.root import Root
from sriov_rt.host.root import read_file
from sriov_rt.labels import options
from sriov_rt.labels.label_source import Answer
from sriov_rt.labels.label_source import Wiring
from sriov_rt.parse import errors
from sriov_rt.parse import features
from sriov_rt.reason import first_of

#: The most files that are read; NFD sets no limit.
MAX_FILES = 256

#: Errors of files that NFD ignores (getFeaturesFromFiles in
#: source/local/local.go): a FIFO or a device (EINVAL here), a dangling link.
_ODD = frozenset({errno.EINVAL, errno.ELOOP, errno.ENXIO})
#: The most files that a problem names.
_NAMED = 3


class NfdLocal:
    """Read the feature files at each observation.

    As in NFD, the file with the last name takes precedence, hidden files and
    directories are ignored, and a missing directory has no files. An odd file
    loses only its own labels. While a file cannot be read, the last labels of
    all files are kept, and none is confirmed.

    :param directory: directory of the files, below the root.
    :param monotonic: the clock of answers, seconds.
    :param wall: Unix time, seconds.
    """

    def __init__(
        self,
        root: Root,
        directory: str,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._directory = directory.strip("/")
        self._monotonic = monotonic
        self._wall = wall
        self._last: Mapping[str, str] | None = None
        self._confirmed = Answer(None).confirmed

    def start(self, known: Mapping[str, str]) -> None:
        """Do nothing, since there is nothing to start."""

    def stop(self) -> None:
        """Do nothing."""

    def read(self) -> Answer:
        """Return the labels of all files."""
        problems: list[str] = []
        found = self._labels(problems)
        if isinstance(found, Unknown):
            problem = f"{found.reason}; check that sriov-rt-agent can read it"
            return Answer(self._last, self._confirmed, problem)
        if found != self._last:
            # The same object while nothing changes, which readers rely on.
            self._last = found
        self._confirmed = self._monotonic()
        ignored = None
        if problems:
            named = first_of(problems, _NAMED)
            ignored = f"passed over, as NFD does: {named}; correct or remove"
        return Answer(self._last, self._confirmed, ignored)

    def _labels(self, problems: list[str]) -> dict[str, str] | Unknown:
        """Return the labels of all files except odd ones.

        :param problems: a clause for each odd file is added here.
        """
        if self._root.exists(self._directory) is False:
            return {}
        names = self._root.list_dir(self._directory)
        if isinstance(names, Unknown):
            return names
        names = tuple(
            name
            for name in names
            if not name.startswith(".") and name != options.FEATURE_FILE
        )
        if len(names) > MAX_FILES:
            problems.append(
                f"{len(names) - MAX_FILES} files of /{self._directory}, "
                f"beyond the first {MAX_FILES}"
            )
        found: dict[str, str] = {}
        for name in names[:MAX_FILES]:
            path = f"{self._directory}/{name}"
            try:
                found |= self._file(path)
            except errors.ParseError as error:
                problems.append(f"/{path}: {error.problem}")
            except OSError as error:
                if error.errno not in _ODD:
                    return Unknown(f"/{path}: {error.strerror}")
                problems.append(f"/{path}: {error.strerror}")
        return found

    def _file(self, path: str) -> Mapping[str, str]:
        """Return the labels of a file.

        :raises OSError: if it cannot be read, or is not a regular file.
        :raises ParseError: if it is too long.
        """
        try:
            data = read_file(self._root.locate(path), features.MAX_FILE + 1)
        except (*ABSENT, IsADirectoryError):
            return {}  # it was deleted after the directory was listed
        # NFD reads bytes: a line that is not UTF-8 only loses its own label.
        text = data.decode(errors="replace")
        return features.parse_features(text, self._wall()).labels


def make(wiring: Wiring) -> NfdLocal:
    """Return the source that a configuration describes."""
    conf = wiring.conf
    return NfdLocal(Root(conf.agent.root), conf.labels.features_dir)
