# SPDX-License-Identifier: Apache-2.0

"""Observation of a host: HostFacts from the installed fact sources."""

import functools
import importlib.metadata
import logging
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import entry_points
from sriov_rt import exceptions
from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import HostFacts
from sriov_rt.facts import LatencyFacts
from sriov_rt.host import compute as compute_source
from sriov_rt.host import irqs
from sriov_rt.host import labels
from sriov_rt.host import latency
from sriov_rt.host.occupancy import Occupancy
from sriov_rt.host.root import Root

LOG = logging.getLogger(__name__)

#: A fact source: it reads from a root, and returns the part of HostFacts with
#: its name. ``compute`` also takes Nova's ``files``.
Source = Callable[..., Any]

#: How much of a problem is kept to be logged and published, in characters.
MAX_PROBLEM = 500

#: The parts that have sources. Labels and occupancy are derived from others,
#: and the agent audits the guests.
PARTS = tuple(
    name
    for name in facts.PARTS
    if name not in ("audit", "labels", "occupancy")
)


class Observer:
    """Observes one host repeatedly.

    :param host: Nova's name of the host.
    :param sources: source of each part, or the reason why it has none: the
        result of :func:`load_sources`.
    :param nova_files: Nova's configuration files below the root, instead of
        those that sriov-rt.conf names there.
    :param keep: records a certificate's withdrawal before it is reported.
    :param occupancy: finds who is on the CPUs for guests; None to leave it
        out.
    :param intended: whether the host is meant to serve realtime guests; None
        to decide by whether Nova has dedicated pCPUs on it.
    :param clock: returns Unix time, seconds.
    """

    def __init__(
        self,
        root: Root,
        host: str,
        node: str,
        sources: Mapping[str, Source | Unknown],
        *,
        nova_files: compute_source.Files | None = None,
        keep: latency.Keep | None = None,
        occupancy: Occupancy | None = None,
        intended: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._host = host
        self._node = node
        self._sources = dict(sources)
        self._clock = clock
        self._problems: dict[str, str] = {}
        if self._sources.get("compute") is compute_source.observe:
            self._sources["compute"] = functools.partial(
                compute_source.observe, host=host
            )
        compute = self._sources.get("compute")
        if nova_files is not None and callable(compute):
            self._sources["compute"] = functools.partial(
                compute, files=nova_files
            )
        if self._sources.get("irqs") is irqs.observe:
            self._sources["irqs"] = functools.partial(
                irqs.observe, counters=irqs.Counters()
            )
        self._keep = keep
        self._occupancy = occupancy
        self._intended = intended
        self._nova: ComputeFacts | None = None
        if self._sources.get("latency") is latency.observe:
            self._sources["latency"] = self._latency

    def observe(self) -> HostFacts:
        """Return the facts as they are now; never raises for a source's fault.

        A part whose source fails is unknown, with the reason; a new reason is
        logged.
        """
        parts: dict[str, Any] = {"compute": self._part("compute")}
        self._nova = parts["compute"]
        parts |= {
            name: self._part(name) for name in PARTS if name not in parts
        }
        parts["labels"] = labels.derive(
            parts["cpus"], parts["kernel"], parts["nics"]
        )
        if self._occupancy is not None:
            parts["occupancy"] = self._occupancy.observe(
                parts["cpus"], parts["compute"], parts["irqs"]
            )
        return HostFacts(
            self._host,
            self._node,
            self._clock(),
            **parts,
            version=installed_version(),
            intended=(
                _intended(parts["compute"])
                if self._intended is None
                else self._intended
            ),
        )

    def _latency(self, root: Root) -> LatencyFacts:
        """Return the certificate, which depends on Nova's power management."""
        return latency.observe(root, self._nova, self._keep)

    def _part(self, name: str) -> Any:
        source = self._sources.get(
            name, Unknown(f"there is no fact source '{name}'")
        )
        if isinstance(source, Unknown):
            return self._unknown(name, source.reason)
        try:
            part = _checked(name, source(self._root))
        except Exception as error:  # noqa: BLE001
            # A plugin may raise anything; the other parts still count.
            why = exceptions.plain(error)
            problem = f"its source failed: {type(error).__name__}: {why}"
            return self._unknown(name, problem, error)
        self._problems.pop(name, None)
        return part

    def _unknown(
        self, name: str, problem: str, error: Exception | None = None
    ) -> Any:
        problem = problem[:MAX_PROBLEM]
        if self._problems.get(name) != problem:
            self._problems[name] = problem
            LOG.warning(
                "Facts '%s' are unknown: %s", name, problem, exc_info=error
            )
        return facts.unknown(name, problem)


def _intended(nova: ComputeFacts) -> bool | Unknown:
    found = nova.dedicated
    return found if isinstance(found, Unknown) else bool(found)


@functools.cache
def installed_version() -> str:
    """Return sriov-rt's version; empty in a tree that is not installed."""
    try:
        return importlib.metadata.version("sriov-rt")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _checked(name: str, part: Any) -> Any:
    """Return a part, checked for every reader.

    :raises TypeError: if it is of another class.
    :raises SchemaError: if a value in it does not fit the class.
    """
    cls = facts.PARTS[name]
    if type(part) is not cls:
        raise TypeError(f"{type(part).__name__} is not {cls.__name__}")
    codec.from_plain(cls, codec.to_plain(part))
    return part


NAMESPACE = "sriov_rt.fact_sources"


def load_sources() -> Mapping[str, Source | Unknown]:
    """Return each part's source, or the reason why there is none.

    Entry points exist only if sriov-rt is installed as a package: in a
    checkout that is not, that is the reason of every part.
    """
    loaded, failed = entry_points.load(NAMESPACE)
    return {
        name: loaded.get(name, _why_missing(name, failed)) for name in PARTS
    }


def _why_missing(name: str, failed: Mapping[str, str]) -> Unknown:
    if name in failed:
        return Unknown(f"its source cannot be loaded: {failed[name]}")
    return Unknown(
        f"no fact source '{name}' is installed in {NAMESPACE}; install "
        "sriov-rt with pip"
    )
