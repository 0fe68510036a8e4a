# SPDX-License-Identifier: Apache-2.0

"""Latency certificate of a host, in the form of its file."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.facts.culprit import Culprit
from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.errors import ParseError

#: The latency certificate. Unlike the agent's, this directory belongs to root.
PATH = "var/lib/sriov-rt-verify/latency-certificate.json"

SCHEMA_VERSION = 1

#: The longest file, in bytes: 1,024 CPUs take 150 kB.
MAX_FILE = 1024 * 1024

#: The greatest valid latency, µs: a minute.
MAX_LATENCY_US = 60_000_000

_DAY_S = 24 * 3600

#: Start of the year 10000 as Unix time, from which Python has no date.
_END_OF_TIME_S = 253_402_300_800

#: The longest validity of a certificate, in seconds: a leap year.
MAX_VALIDITY_S = 366 * _DAY_S

#: Withdrawal of the certificate, in the agent's directory: the agent cannot
#: write to root's.
WITHDRAWAL_PATH = "var/lib/sriov-rt/latency-withdrawal.json"

#: A certificate that was withdrawn while its disk took no data, in memory.
IN_MEMORY_PATH = "run/sriov-rt/latency-certificate.json"

#: Its name from then on, for the time after that boot: it takes no room.
RENAMED_PATH = "var/lib/sriov-rt-verify/latency-certificate.withdrawn"

#: The longest file of it, in bytes.
MAX_WITHDRAWAL = 64 * 1024

#: The load of an idle host, on which a measurement proves nothing.
_NO_LOAD = "none"


@dataclasses.dataclass(frozen=True, slots=True)
class CertifiedTool:
    """One measurement that a certificate is based on.

    :param version: the tool's version as it reports it.
    :param command: its command line, or the tracer's settings.
    :param duration_s: how long it measured, seconds.
    :param max_us: the worst latency of all CPUs.
    """

    tool: str
    version: str
    command: str
    duration_s: float
    max_us: int


@dataclasses.dataclass(frozen=True, slots=True)
class CertifiedCpu:
    """Measured latencies of one CPU, by all tools.

    :param max_us: the worst latency.
    :param samples: number of samples of the tool that found it.
    :param once_in_s: seconds in which a worse latency is expected less than
        once, at 95 %.
    :param estimate_us: extreme-value estimate for a run of the same length;
        None where its conditions do not hold.
    :param estimate_refused: the condition that failed, one clause; empty with
        an estimate, and in certificates of versions that did not record it.
    """

    cpu: int
    max_us: int
    samples: int
    once_in_s: float
    estimate_us: int | None
    estimate_refused: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Certificate:
    """Measured latency of a host, and the conditions of the measurement.

    :param host: name of the host, for people.
    :param max_latency_us: the worst latency of all CPUs and tools, µs.
    :param kernel: release of the kernel that it was measured on.
    :param issued_at: Unix time in seconds.
    :param expires_at: Unix time in seconds from which it is not valid.
    :param load: the load that it was measured under.
    :param emulated: whether the host is itself a virtual machine: then the
        figures say nothing about any hardware.
    :param conditions: the conditions of its validity, by name
        (host.conditions).
    :param withdrawn: why it was withdrawn before it expired; empty while it
        is valid.
    :param withdrawn_at: Unix time of the withdrawal, seconds; 0 while it is
        valid, and in certificates of versions that did not record it.
    :param culprit: culprit of the sample that withdrew it; None if a changed
        condition did.
    :param packages: the host's virtualization packages when it was issued,
        each a name and a version; empty in certificates of older versions.
    :param digest: SHA-256 of all other fields, hexadecimal.
    """

    host: str
    max_latency_us: int
    kernel: str
    issued_at: float
    expires_at: float
    profile: str
    load: str
    emulated: bool
    tools: tuple[CertifiedTool, ...]
    cpus: tuple[CertifiedCpu, ...]
    conditions: Mapping[str, str]
    withdrawn: str = ""
    withdrawn_at: float = 0.0
    culprit: Culprit | None = None
    packages: tuple[str, ...] = ()
    digest: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Withdrawal:
    """Withdrawal of a certificate, as the agent records it.

    :param digest: digest of the certificate.
    :param why: the first change, a clause.
    :param at: Unix time of the withdrawal, seconds.
    :param times: how often the conditions have changed.
    :param is_restored: whether all conditions are currently as measured.
    """

    digest: str
    why: str
    at: float
    times: int = 1
    is_restored: bool = False


def withdrawal_to_bytes(found: Withdrawal) -> bytes:
    """Return the content of a withdrawal's file."""
    return documents.dump(found, SCHEMA_VERSION)


def withdrawal_from_text(text: str) -> Withdrawal:
    """Return the withdrawal in a file's text.

    :raises SchemaError: if the text is not a withdrawal.
    """
    data = text.encode()
    return documents.load(Withdrawal, data, MAX_WITHDRAWAL, SCHEMA_VERSION)


def as_issued(found: Certificate) -> Certificate:
    """Return a certificate without its withdrawal."""
    return dataclasses.replace(
        found, withdrawn="", withdrawn_at=0.0, culprit=None, digest=""
    )


def to_bytes(certificate: Certificate) -> bytes:
    """Return the content of a certificate's file, with its digest."""
    found = codec.to_plain(certificate)
    found["schema"] = SCHEMA_VERSION
    found["digest"] = digest_of(found)
    return (json.dumps(found, indent=2, sort_keys=True) + "\n").encode()


def from_bytes(data: bytes) -> Certificate:
    """Return the certificate in a file's content.

    :raises SchemaError: if it is no certificate, or was edited.
    """
    found = documents.load(Certificate, data, MAX_FILE, SCHEMA_VERSION)
    if found.digest != digest_of(documents.plain(data, MAX_FILE)):
        raise codec.SchemaError("digest", "the file was edited")
    if not 0 <= found.max_latency_us <= MAX_LATENCY_US:
        raise codec.SchemaError(
            "max_latency_us",
            f"a whole number from 0 to {MAX_LATENCY_US} expected",
        )
    for problem in contradictions(found):
        raise codec.SchemaError("its figures", problem)
    return found


def contradictions(found: Certificate) -> Iterator[str]:
    """Yield the contradictions in a certificate, a clause each."""
    for part, problem in (
        (found.tools, "no tool has measured anything"),
        (found.cpus, "no CPU was measured"),
        (found.conditions, "it hangs on no condition"),
    ):
        if not part:
            yield problem
    if found.load in ("", _NO_LOAD):
        yield f"measured under the load '{found.load}'"
    if found.issued_at < 0 or found.expires_at >= _END_OF_TIME_S:
        yield "it is dated at no time that a calendar has"
    if found.expires_at <= found.issued_at:
        yield "it expires before it was issued"
    if found.expires_at - found.issued_at > MAX_VALIDITY_S:
        yield f"it counts for more than {MAX_VALIDITY_S // _DAY_S} days"
    yield from _maxima(found)
    yield from _cpus(found)


def _maxima(found: Certificate) -> Iterator[str]:
    for name, amount, worst in (
        *((e.tool, e.duration_s, e.max_us) for e in found.tools),
        *((f"CPU {e.cpu}", e.samples, e.max_us) for e in found.cpus),
    ):
        if amount <= 0:
            yield f"{name} has no sample"
        if not 0 <= worst <= found.max_latency_us:
            yield (
                f"{name} has a maximum of {worst} µs, the certificate of "
                f"{found.max_latency_us} µs"
            )


def _cpus(found: Certificate) -> Iterator[str]:
    measured = [each.cpu for each in found.cpus]
    if any(not 0 <= each < cpulist.MAX_CPUS for each in measured):
        yield f"a CPU in it is not one of 0 to {cpulist.MAX_CPUS - 1}"
    if len(set(measured)) < len(measured):
        yield "a CPU is in it twice"
    lists = [
        found.conditions.get(name, "")
        for name in ("isolated CPUs", "online CPUs")
    ]
    try:
        isolated, online = map(cpulist.parse_cpu_list, lists)
    except ParseError:
        return  # one of the lists could not be read
    left = cpulist.format_cpu_list(
        CpuSet(each for each in isolated & online if each not in measured)
    )
    if left:
        yield f"CPU {left} is isolated and was not measured"


def digest_of(plain: Mapping[str, object]) -> str:
    """Return the digest of a certificate's fields: SHA-256, hexadecimal.

    :param plain: the fields as in its file; a digest among them is left out.
    """
    signed = {key: each for key, each in plain.items() if key != "digest"}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
