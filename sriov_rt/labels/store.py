# SPDX-License-Identifier: Apache-2.0

"""Store of the last known labels.

The agent loads them after a restart; nova-compute and ``sriov-rt host`` read
them. A host without sources stores an empty record.
"""

import dataclasses
import logging
import math
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.parse import label

LOG = logging.getLogger(__name__)

#: The agent's file with the last labels of each source; ``sriov-rt host`` and
#: nova-compute read it.
PATH = "/var/lib/sriov-rt/labels.json"

#: Raised by one when an older reader would misread a newer file. A file of
#: another version is ignored: the sources return their labels again.
SCHEMA_VERSION = 1

#: The longest file, in bytes. A Node has 100 to 200 labels of at most 380
#: characters each; etcd accepts no object above 1.5 MiB.
MAX_FILE = 4 * 1024 * 1024

#: Time of confirmation for a source without one since the boot.
NEVER = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Host and boot of labels; labels of another host are not used.

    :param host: Nova's name of the host.
    :param boot_id: the kernel's id of the boot
        (``/proc/sys/kernel/random/boot_id``); the next boot may have another
        kernel or card.
    """

    host: str
    boot_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """Last labels of a source, and the time of their confirmation.

    :param at: Unix time of their last confirmation, seconds; or
        :data:`NEVER`.
    :param problem: why they cannot be confirmed; None if they can.
    """

    labels: Mapping[str, str]
    at: float
    problem: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Aged:
    """Last labels of a source, and their age in seconds."""

    labels: Mapping[str, str]
    age_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Stored labels of all sources.

    :param stale_after_s: the agent's limit, seconds.
    :param sources: source to its last labels, in their order.
    :param contradicted: label to how often a source began to contradict the
        kernel about it.
    """

    origin: Origin
    stale_after_s: float
    sources: Mapping[str, Known]
    contradicted: Mapping[str, int]

    def ages(self, origin: Origin, now: float) -> Iterator[tuple[str, Aged]]:
        """Yield each source and its last labels.

        The age of labels from before the last boot is infinite, and so is
        that of labels from the future: the clock was or is wrong.

        :param origin: the host's present origin.
        :param now: Unix time, seconds.
        """
        same = bool(origin.boot_id) and origin == self.origin
        for name, known in self.sources.items():
            sound = same and NEVER < known.at <= now
            age_s = now - known.at if sound else math.inf
            yield name, Aged(known.labels, age_s)


def save(path: pathlib.Path, record: Record) -> None:
    """Replace the file atomically.

    :raises OSError: if that fails; the old file then remains.
    """
    data = documents.dump(record, SCHEMA_VERSION)
    # No fsync: labels are not used after the next boot.
    files.replace(path, data, 0o644)


def load(path: pathlib.Path) -> Record | None:
    """Return the stored record; None if there is no usable one."""
    try:
        return parse(files.read(path, MAX_FILE))
    except FileNotFoundError:
        return None
    except (OSError, codec.SchemaError) as error:
        LOG.warning(
            "cannot use the labels stored in %s (%s); their sources provide "
            "them again",
            path,
            exceptions.plain(error),
        )
        return None


def parse(data: bytes) -> Record:
    """Return the record in a file's bytes.

    :raises SchemaError: if they are not in the form of :func:`save`.
    """
    record = documents.load(Record, data, MAX_FILE, SCHEMA_VERSION)
    for name, known in record.sources.items():
        for key, value in known.labels.items():
            problem = label.why_not_key(key) or label.why_not_value(value)
            if problem:
                raise codec.SchemaError(f"sources.{name}.labels", problem)
    return record
