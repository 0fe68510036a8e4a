# SPDX-License-Identifier: Apache-2.0

"""The agent's handling of labels: into its facts, and back into NFD."""

import dataclasses
import fnmatch
import logging
import pathlib
import re
import threading
from collections.abc import Callable
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.host.root import BOOT_ID
from sriov_rt.host.root import Root
from sriov_rt.labels import label_source
from sriov_rt.labels import options
from sriov_rt.labels import store
from sriov_rt.labels.feature_file import FeatureFile
from sriov_rt.labels.label_source import Wiring
from sriov_rt.labels.last_known import LastKnown
from sriov_rt.placement import label_traits

LOG = logging.getLogger(__name__)

#: Seconds that a clean stop waits for the disk.
STOP_S = 2.0


class Labels:
    """Complete each observation with labels.

    :param last_known: the sources' last known labels.
    :param feature_file: file for NFD; None to write none.
    :param allowed: shell patterns of the keys that become traits.
    """

    def __init__(
        self,
        last_known: LastKnown,
        feature_file: FeatureFile | None,
        allowed: Sequence[str],
    ) -> None:
        self._last_known = last_known
        self._feature_file = feature_file
        self._allowed = tuple(allowed)
        self._lock = threading.Lock()
        # Held during writes to the disk, which may take long.
        self._writing = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Start the sources."""
        self._last_known.start()

    def stop(self) -> None:
        """Stop the sources, and remove NFD's feature file."""
        with self._lock:
            self._stopped = True
            self._last_known.stop()
            record = self._last_known.record()
        if not self._writing.acquire(timeout=STOP_S):
            LOG.warning("labels are not stored: writing to the disk hangs")
            return
        try:
            self._last_known.write(record)
            if self._feature_file is not None:
                self._feature_file.remove()
        finally:
            self._writing.release()

    def complete(self, facts: HostFacts) -> HostFacts:
        """Return the facts with the labels of all sources."""
        with self._lock:
            labels = self._last_known.apply(facts.labels)
            return dataclasses.replace(facts, labels=labels)

    def store(self, facts: HostFacts) -> None:
        """Store the sources' labels, and write NFD's feature file.

        :param facts: facts with labels, which have already been reported.
        """
        with self._writing:
            with self._lock:
                if self._stopped:
                    # Nothing may be written after stop().
                    return
                record = self._last_known.due()
            self._last_known.write(record)
            if self._feature_file is not None:
                self._feature_file.update(facts)

    def traits(self, facts: HostFacts) -> frozenset[str]:
        """Return the traits of a host's labels."""
        return label_traits.of(facts.labels, self._allowed)


def make(
    conf: cfg.ConfigOpts,
    changed: Callable[[], None],
    crashed: Callable[[], None],
) -> Labels:
    """Return the labels that a configuration describes, not started.

    :param conf: with the agent's options.
    :param changed: called when a source's labels have changed.
    :param crashed: called when a source's thread meets an unexpected error.
    :raises LabelSourceMissing: if a source is unavailable.
    """
    group = conf.labels
    last_known = LastKnown(
        label_source.load(group.sources, Wiring(conf, changed, crashed)),
        group.stale_after,
        pattern(group.ignore),
        pathlib.Path(group.store) if group.store else None,
        origin(conf.host, Root(conf.agent.root)),
    )
    last_known.recall()
    feature_file = None
    if group.feature_file:
        place = pathlib.Path(conf.agent.root, group.features_dir.strip("/"))
        feature_file = FeatureFile(
            place / options.FEATURE_FILE, group.feature_expiry
        )
    return Labels(last_known, feature_file, group.traits)


def pattern(globs: Sequence[str]) -> re.Pattern[str] | None:
    """Return one pattern for several shell patterns; None for none."""
    if not globs:
        return None
    return re.compile("|".join(map(fnmatch.translate, globs)))


def origin(host: str, root: Root) -> store.Origin:
    """Return the present origin of this host's labels.

    The boot id is empty if it cannot be read.
    """
    boot_id = root.read_text(BOOT_ID)
    name = "" if isinstance(boot_id, Unknown) else boot_id.strip()
    return store.Origin(host, name)
