# SPDX-License-Identifier: Apache-2.0

"""Metrics of this host for Prometheus: a view of the last facts.

The agent counts nothing itself: each scrape reads its facts, and the counts
of the programs that plug ports. The names follow Prometheus' own conventions
(base units, no unit twice).
"""

import itertools
import logging
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from sriov_rt import exceptions
from sriov_rt.agent import metrics_server
from sriov_rt.agent import vf_series
from sriov_rt.agent.vf_series import Sample
from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.decide import occupancy
from sriov_rt.facts import CountedVf
from sriov_rt.facts import HostFacts
from sriov_rt.facts import HostHold
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import culprit
from sriov_rt.facts import decisive
from sriov_rt.host import port_counts
from sriov_rt.host import readiness
from sriov_rt.host.observer import installed_version
from sriov_rt.host.root import Root

LOG = logging.getLogger(__name__)

GROUP = "metrics"

METRICS_OPTS = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="""
Whether the agent serves metrics of this host to Prometheus.

It takes prometheus_client (``pip install sriov-rt[metrics]``). The endpoint
has neither a password nor encryption: put a proxy before it where it is to be
reached from other hosts.
""",
    ),
    cfg.IPOpt(
        "address",
        default="127.0.0.1",
        help="""
The address that the endpoint listens on.

The default can be reached from this host alone. Set it to the address of the
management network where the Prometheus server of the cloud scrapes it, and let
a firewall keep everybody else away.
""",
    ),
    cfg.PortOpt(
        "port",
        default=9836,
        min=1,
        help="""
The TCP port that the endpoint listens on.

Change it if another exporter of this host has it; the scrape configuration of
Prometheus has to name the same.
""",
    ),
]

#: Help of every metric, by name.
HELP = {
    "sriov_rt_build_info": "Release of the agent; always 1.",
    "sriov_rt_agent_start_timestamp_seconds": (
        "Unix time at which the agent was started."
    ),
    "sriov_rt_observe_interval_seconds": (
        "Time from one observation of the host to the next."
    ),
    "sriov_rt_host_ready": (
        "Whether the host can serve realtime guests, and is meant to."
    ),
    "sriov_rt_host_reason": "A Reason why it cannot, by its code.",
    "sriov_rt_facts_observed_timestamp_seconds": (
        "Unix time of the last observation of the host."
    ),
    "sriov_rt_facts_age_seconds": (
        "Time since the last observation, whatever the host's clock says."
    ),
    "sriov_rt_host_hold_timestamp_seconds": (
        "Unix time since which the host is on hold; none if it is not."
    ),
    "sriov_rt_certificate_known": (
        "Whether the certificate, or that there is none, could be read."
    ),
    "sriov_rt_certificate_bound_seconds": (
        "Worst latency that the certificate of the host names."
    ),
    "sriov_rt_certificate_expiry_timestamp_seconds": (
        "Unix time at which the certificate expires."
    ),
    "sriov_rt_certificate_withdrawn": "Whether the certificate is withdrawn.",
    "sriov_rt_certificate_culprit": (
        "Whether the sample that withdrew the certificate had such a culprit."
    ),
    "sriov_rt_vfs": "VFs by their PF and state (free or used).",
    "sriov_rt_quarantined_ports": (
        "Quarantined ports by the PF, or the parent without VFs, of each."
    ),
    "sriov_rt_held_vfs": (
        "VFs of pods, VMIs, domains and Neutron's agent, by PF and state."
    ),
    "sriov_rt_occupied_cpus": (
        "CPUs for guests that something else is pinned to, or runs on."
    ),
    "sriov_rt_cpu_occupants": (
        "What is on CPUs for guests and of no guest, by kind, state, program "
        "and unit."
    ),
    "sriov_rt_guest_drifts": "Drifts of running guests, by code.",
    "sriov_rt_records_known": (
        "Whether the records of ports and VFs could be read."
    ),
    "sriov_rt_audit_known": "Whether the last audit could read the guests.",
    "sriov_rt_port_operations_total": (
        "Plugs, unplugs and recoveries of ports since the boot, by result."
    ),
    **vf_series.HELP,
}

#: Ending of a counter's name; all other metrics are gauges.
_COUNTER = "_total"


#: Values that are the agent's own, without labels.
OfAgent = Callable[[], Mapping[str, float]]

#: Returns the VFs of this host with their counters.
CountVfs = Callable[[], Sequence[CountedVf]]


def samples(facts: HostFacts) -> Iterator[Sample]:
    """Yield the samples of a host's facts; unknown facts are left out."""
    found = readiness.judge(decisive(facts), placed_by_nova=True)
    intended = "unknown"
    if not isinstance(facts.intended, Unknown):
        intended = "yes" if facts.intended else "no"
    labels = {"intended": intended}
    yield "sriov_rt_host_ready", labels, float(found.is_ready)
    for code in sorted({each.code for each in found.must}):
        yield "sriov_rt_host_reason", {"code": code}, 1.0
    yield (
        "sriov_rt_facts_observed_timestamp_seconds",
        {},
        facts.observed_at,
    )
    paused = facts.maintenance.hold
    if isinstance(paused, HostHold):
        yield "sriov_rt_host_hold_timestamp_seconds", {}, paused.since
    yield from _certificate(facts)
    yield from _vfs(facts)
    yield from _quarantined(facts)
    yield from _holders(facts)
    yield from _occupancy(facts)
    records = (facts.vifs.quarantined, facts.vifs.holders)
    known = not any(isinstance(each, Unknown) for each in records)
    yield "sriov_rt_records_known", {}, float(known)
    drifts = facts.audit.drifts
    yield "sriov_rt_audit_known", {}, float(not isinstance(drifts, Unknown))
    if not isinstance(drifts, Unknown):
        for code, count in sorted(Counter(x.code for x in drifts).items()):
            yield "sriov_rt_guest_drifts", {"code": code}, float(count)


def _certificate(facts: HostFacts) -> Iterator[Sample]:
    found = facts.latency.certificate
    known = float(not isinstance(found, Unknown))
    yield "sriov_rt_certificate_known", {}, known
    if isinstance(found, LatencyCertificate):
        bound = found.max_latency_us / 1e6
        yield "sriov_rt_certificate_bound_seconds", {}, bound
        yield (
            "sriov_rt_certificate_expiry_timestamp_seconds",
            {},
            found.expires_at,
        )
        withdrawn = float(bool(found.withdrawn))
        yield "sriov_rt_certificate_withdrawn", {}, withdrawn
        named = found.culprit.kind if found.culprit else ""
        for kind in culprit.KINDS:
            labels = {"kind": kind}
            yield "sriov_rt_certificate_culprit", labels, float(kind == named)


def _vfs(facts: HostFacts) -> Iterator[Sample]:
    for nic in known_or(facts.nics.nics, ()):
        if isinstance(nic.vfs, Unknown) or not nic.vfs:
            continue
        used = sum(
            each.owner is not None
            for each in nic.vfs
            if not isinstance(each.owner, Unknown)
        )
        known = sum(not isinstance(each.owner, Unknown) for each in nic.vfs)
        for state, count in (("used", used), ("free", known - used)):
            labels = {"parent": nic.name, "state": state}
            yield "sriov_rt_vfs", labels, float(count)


def _quarantined(facts: HostFacts) -> Iterator[Sample]:
    ports = facts.vifs.quarantined
    if isinstance(ports, Unknown):
        return
    counts = Counter(each.nic for each in ports)
    # A parent without such a port has a zero: a rule sees the last one go.
    pools = facts.vifs.pools
    if not isinstance(pools, Unknown):
        counts.update(dict.fromkeys(sum(pools.values(), ()), 0))
    for nic, count in sorted(counts.items()):
        yield "sriov_rt_quarantined_ports", {"parent": nic}, float(count)


def _holders(facts: HostFacts) -> Iterator[Sample]:
    found = facts.vifs.holders
    if isinstance(found, Unknown):
        return
    counts = Counter((each.nic, each.kind, each.state) for each in found)
    for (nic, kind, state), count in sorted(counts.items()):
        labels = {"parent": nic, "holder": kind, "state": state}
        yield "sriov_rt_held_vfs", labels, float(count)


def _occupancy(facts: HostFacts) -> Iterator[Sample]:
    found = facts.occupancy.occupants
    if isinstance(found, Unknown):
        return
    taken = len(occupancy.taken(facts.occupancy))
    yield "sriov_rt_occupied_cpus", {}, float(taken)
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for each in found:
        # Without an interrupt's name: its number may pass to another device.
        name = "" if each.kind == "interrupt" else each.process or each.name
        counts[each.kind, each.state, name, each.unit] += max(each.threads, 1)
    for key, count in sorted(counts.items()):
        names = ("kind", "state", "program", "unit")
        labels = dict(zip(names, key, strict=True))
        yield "sriov_rt_cpu_occupants", labels, float(count)


def operations(root: Root) -> Iterator[Sample]:
    """Yield counts of operations on ports by result; nothing if unknown.

    A result that has not occurred yet is 0: Prometheus sees no increase in a
    counter whose first sample is 1.
    """
    found = port_counts.observe(root)
    if isinstance(found, Unknown):
        return
    counts = {**dict.fromkeys(port_counts.KNOWN, 0), **found}
    for (operation, result), count in sorted(counts.items()):
        labels = {"operation": operation, "result": result}
        yield "sriov_rt_port_operations_total", labels, float(count)


class Metrics:
    """The endpoint, in its own threads.

    :param latest: returns the last facts; None before the first.
    :param root: root of the files with the counts of ports and the guests.
    :param count_vfs: returns the VFs with their counters; it may raise any
        error of ours.
    :param of_agent: returns the values of the agent itself.
    :raises SriovRtError: without prometheus_client.
    """

    def __init__(
        self,
        address: str,
        port: int,
        latest: Callable[[], HostFacts | None],
        root: Root,
        count_vfs: CountVfs = tuple,
        of_agent: OfAgent = dict,
    ) -> None:
        try:
            # Imported here, since it is optional.
            import prometheus_client
        except ImportError:
            raise exceptions.SriovRtError(
                "[metrics] enabled needs prometheus_client; run 'pip install "
                "sriov-rt[metrics]', or set [metrics] enabled = false"
            ) from None
        self._library = prometheus_client
        self._address, self._port = address, port
        self._latest = latest
        self._root = root
        self._count_vfs = count_vfs
        self._of_agent = of_agent
        self._problem = ""
        self._server: metrics_server.Server | None = None

    def start(self) -> None:
        """Start to serve; log an error if the address is in use."""
        registry = self._library.CollectorRegistry()
        registry.register(self)
        try:
            self._server = metrics_server.Server(
                (self._address, self._port),
                self._library.make_wsgi_app(registry),
            )
            self._server.start()
        except OSError as error:
            LOG.error(
                "no metrics are served on %s:%d (%s); change [metrics] "
                "address or port, and restart the agent",
                self._address,
                self._port,
                exceptions.plain(error),
            )

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.stop()

    def _of_vfs(self) -> Iterator[Sample]:
        try:
            yield from vf_series.samples(self._count_vfs(), self._root)
            self._problem = ""
        except (exceptions.SriovRtError, OSError) as error:
            # The other metrics must still be scraped.
            problem = exceptions.plain(error)
            if problem != self._problem:
                LOG.warning("the VFs are not counted: %s", problem)
            self._problem = problem

    def describe(self) -> list[Any]:
        """Return nothing, or prometheus_client would call collect()."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metrics of one scrape."""
        facts = self._latest()
        core = self._library.metrics_core
        families: dict[str, Any] = {}
        for name, labels, value in itertools.chain(
            [("sriov_rt_build_info", {"version": installed_version()}, 1.0)],
            ((name, {}, value) for name, value in self._of_agent().items()),
            operations(self._root),
            () if facts is None else samples(facts),
            self._of_vfs(),
        ):
            if name not in families:
                kind = (
                    core.CounterMetricFamily
                    if name.endswith(_COUNTER)
                    else core.GaugeMetricFamily
                )
                families[name] = kind(name, HELP[name], labels=sorted(labels))
            families[name].add_metric(
                [labels[each] for each in sorted(labels)], value
            )
        yield from families.values()
