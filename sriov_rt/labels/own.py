# SPDX-License-Identifier: Apache-2.0

"""Features of the host that the agent knows and NFD does not."""

import datetime
import itertools
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.decide import maintenance
from sriov_rt.decide import realtime
from sriov_rt.facts import HostFacts
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import decisive
from sriov_rt.labels.merge import OWN_PREFIX
from sriov_rt.parse import features

TRUE = "true"

_NAME = OWN_PREFIX.removeprefix(f"{features.PREFIX}/")


def of(facts: HostFacts, now: float) -> Mapping[str, str]:
    """Return name and value of each feature, sorted by name.

    A property that is false or unknown has no feature.

    :param now: Unix time in seconds; latency certificates expire.
    """
    found = {}
    for name, cpus in (
        ("cpus.isolated", facts.cpus.isolated),
        ("cpus.nohz_full", facts.cpus.nohz_full),
    ):
        if not isinstance(cpus, Unknown):
            found[name] = str(len(cpus))
    if _onload(facts):
        found["onload"] = TRUE
    certificate = _certificate(facts, now)
    if certificate is not None:
        found["latency-us"] = str(certificate.max_latency_us)
        if not certificate.emulated:
            found["certified"] = TRUE
    judged = decisive(facts)
    problems = itertools.chain(
        maintenance.reasons(judged),
        realtime.reasons(judged, placed_by_nova=False),
    )
    if next(problems, None) is None:
        found["ready"] = TRUE
    return {_NAME + name: found[name] for name in sorted(found)}


def text(named: Mapping[str, str], expires_at: float) -> str:
    """Return a feature file.

    :param named: the features returned by :func:`of`.
    :param expires_at: Unix time in seconds at which it expires for NFD.
    """
    until = datetime.datetime.fromtimestamp(int(expires_at), datetime.UTC)
    lines = [
        "# Managed by sriov-rt-agent; do not edit.",
        f"# +expiry-time={until:%Y-%m-%dT%H:%M:%SZ}",
        *(f"{name}={value}" for name, value in named.items()),
    ]
    return "\n".join(lines) + "\n"


def _onload(facts: HostFacts) -> bool:
    onload = facts.onload
    return (
        not isinstance(onload.modules, Unknown)
        and not isinstance(onload.devices, Unknown)
        and not isinstance(onload.library, Unknown)
        and "onload" in onload.modules
        and "/dev/onload" in onload.devices
        and onload.library is not None
    )


def _certificate(facts: HostFacts, now: float) -> LatencyCertificate | None:
    """Return the latency certificate, if it is valid."""
    certificate = facts.latency.certificate
    if certificate is None or isinstance(certificate, Unknown):
        return None
    if certificate.expires_at <= now or certificate.withdrawn:
        return None
    if certificate.kernel != facts.kernel.release:
        return None
    return certificate
