# SPDX-License-Identifier: Apache-2.0

"""Store of the last known labels.

The agent takes them up after a restart; nova-compute and ``sriov-rt host``
read them. What a host without sources stores is that it has none.
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

#: Last labels of each source, by the agent; ``sriov-rt host`` and
#: nova-compute read them.
PATH = "/var/lib/sriov-rt/labels.json"

#: Raised by one when an older reader would misread a newer file. A file of
#: another version is passed over: sources say it all again.
SCHEMA_VERSION = 1

#: The longest file, in bytes. A Node has 100 to 200 labels of at most 380
#: characters each; etcd takes no object above 1.5 MiB.
MAX_FILE = 4 * 1024 * 1024

#: When the labels of a source held that has not confirmed any since the boot.
NEVER = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Host and boot that labels belong to; those of another are not used.

    :param host: the name that Nova calls the host by.
    :param boot_id: the kernel's name of its boot
        (``/proc/sys/kernel/random/boot_id``); another kernel or card may
        run after the next one.
    """

    host: str
    boot_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """Last labels of a source, and the time at which they last held.

    :param at: Unix time, seconds, at which the labels last held; or
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
    :param sources: source to what it said, in their order.
    :param contradicted: label to how often a source began to say something
        of it that the kernel denies.
    """

    origin: Origin
    stale_after_s: float
    sources: Mapping[str, Known]
    contradicted: Mapping[str, int]

    def ages(self, origin: Origin, now: float) -> Iterator[tuple[str, Aged]]:
        """Yield each source and what it said.

        Labels from before the last boot are of any age, and so are those of
        a time to come: the clock was wrong then or is now.

        :param origin: of the host as it runs now.
        :param now: Unix time, seconds.
        """
        same = bool(origin.boot_id) and origin == self.origin
        for name, known in self.sources.items():
            sound = same and NEVER < known.at <= now
            age_s = now - known.at if sound else math.inf
            yield name, Aged(known.labels, age_s)


def save(path: pathlib.Path, record: Record) -> None:
    """Replace the file, all at once.

    :raises OSError: if it cannot be; the old one is then still there.
    """
    data = documents.dump(record, SCHEMA_VERSION)
    # No fsync: labels do not count after the next boot.
    files.replace(path, data, 0o644)


def load(path: pathlib.Path) -> Record | None:
    """Return what was stored; None if there is nothing that can be used."""
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
    """Return what the bytes of a file say.

    :raises SchemaError: if they are not what :func:`save` writes.
    """
    record = documents.load(Record, data, MAX_FILE, SCHEMA_VERSION)
    for name, known in record.sources.items():
        for key, value in known.labels.items():
            problem = label.why_not_key(key) or label.why_not_value(value)
            if problem:
                raise codec.SchemaError(f"sources.{name}.labels", problem)
    return record
