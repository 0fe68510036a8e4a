# SPDX-License-Identifier: Apache-2.0

"""Issuing and withdrawing the latency certificate of this host."""

import contextlib
import dataclasses
import logging
import pathlib
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.facts import certificate
from sriov_rt.facts.certificate import Certificate
from sriov_rt.facts.certificate import CertifiedCpu
from sriov_rt.facts.certificate import CertifiedTool
from sriov_rt.facts.culprit import Culprit
from sriov_rt.host import conditions
from sriov_rt.host import latency
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import bound
from sriov_rt.verify.errors import CertificateRefused
from sriov_rt.verify.load import Load
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.tools import CERTIFYING

LOG = logging.getLogger(__name__)

#: The shortest run of each certifying tool, in seconds: as long as the
#: profile ovirt measures.
MIN_DURATION_S = 15 * 60

#: How long a certificate is valid by default: 30 days.
VALIDITY_S = 30 * 24 * 3600


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """Host that a certificate is issued for.

    :param host: the host's name, for people.
    :param kernel: its kernel's release.
    :param cpus: the isolated CPUs.
    :param conditions: what the certificate depends on, before and after the
        measurement.
    :param packages: virtualization packages, each a name and a version.
    """

    host: str
    kernel: str
    cpus: CpuSet
    before: Mapping[str, str]
    after: Mapping[str, str]
    emulated: bool
    packages: tuple[str, ...] = ()


def issue(
    subject: Subject,
    measurements: Sequence[Measurement],
    profile: str,
    load: Load,
    now: float,
    *,
    validity_s: float = VALIDITY_S,
    min_duration_s: float = MIN_DURATION_S,
) -> Certificate:
    """Return the certificate that measurements earn.

    :param now: Unix time in seconds.
    :raises CertificateRefused: if they earn none, with all reasons.
    """
    reasons = list(refused(subject, measurements, load, min_duration_s))
    if validity_s > certificate.MAX_VALIDITY_S:
        days = certificate.MAX_VALIDITY_S // (24 * 3600)
        reasons.append(f"a certificate counts for at most {days} days")
    if reasons:
        raise CertificateRefused(reasons)
    return Certificate(
        host=subject.host,
        max_latency_us=max(each.max_us for each in measurements),
        kernel=subject.kernel,
        issued_at=now,
        expires_at=now + validity_s,
        profile=profile,
        load=load.name,
        emulated=subject.emulated,
        tools=tuple(
            CertifiedTool(
                tool=each.tool,
                version=each.version,
                command=each.command,
                duration_s=each.duration_s,
                max_us=each.max_us,
            )
            for each in measurements
        ),
        cpus=tuple(of_cpu(cpu, measurements) for cpu in sorted(subject.cpus)),
        conditions=subject.after,
        packages=subject.packages,
    )


def prepare(root: pathlib.Path) -> None:
    """Check that a certificate can be written, before hours of measuring.

    :param root: of the host, ``/``.
    :raises OSError: if it can't.
    """
    directory = (root / certificate.PATH).parent
    files.make_directory(directory)
    with tempfile.TemporaryFile(dir=directory):
        pass


def write(found: Certificate, root: pathlib.Path) -> pathlib.Path:
    """Write a certificate atomically.

    :param root: of the host, ``/``.
    :returns: its path.
    :raises OSError: if it can't be written; the previous one is kept then.
    """
    path = root / certificate.PATH
    files.make_directory(path.parent)
    files.replace(path, certificate.to_bytes(found), 0o644, durable=True)
    for each in (
        certificate.RENAMED_PATH,
        certificate.IN_MEMORY_PATH,
        # What the agent kept is of the one before; here it may be read-only.
        certificate.WITHDRAWAL_PATH,
    ):
        with contextlib.suppress(OSError):
            (root / each).unlink()
    return path


def withdraw(
    found: Certificate,
    why: str,
    root: pathlib.Path,
    culprit: Culprit | None = None,
) -> None:
    """Record that a certificate is withdrawn.

    Where its disk takes no data, it is written to memory, and the certificate
    renamed for the time after this boot: that takes no room. :func:`retry`
    tries again.

    :param why: a sentence.
    :param culprit: of the sample that contradicts it.
    :raises OSError: if neither can be done.
    """
    marked = dataclasses.replace(
        found, withdrawn=why, withdrawn_at=time.time(), culprit=culprit
    )
    try:
        write(marked, root)
    except OSError as error:
        if not any((_in_memory(marked, root), _renamed(root))):
            raise
        LOG.error(
            "the certificate is withdrawn (%s), and its disk does not take "
            "that: %s; %s. 'sriov-rt verify watch' tries again",
            why,
            exceptions.plain(error),
            files.remedy(error, "mend it"),
        )


def _in_memory(marked: Certificate, root: pathlib.Path) -> bool:
    path = root / certificate.IN_MEMORY_PATH
    with contextlib.suppress(OSError):
        files.make_directory(path.parent)
        files.replace(path, certificate.to_bytes(marked), 0o644)
        return True
    return False


def _renamed(root: pathlib.Path) -> bool:
    new = root / certificate.RENAMED_PATH
    try:
        (root / certificate.PATH).replace(new)
    except FileNotFoundError:
        return new.exists()  # by an earlier try
    except OSError:
        return False
    return True


def retry(root: Root) -> None:
    """Write a withdrawal to the disk that took no data then."""
    paths = (certificate.RENAMED_PATH, certificate.IN_MEMORY_PATH)
    if not any((root.path / each).exists() for each in paths):
        return
    found = latency.read(root)
    if isinstance(found, Certificate) and found.withdrawn:
        with contextlib.suppress(OSError):
            write(found, root.path)
            LOG.info("the withdrawal of the certificate is on its disk now")


def refused(
    subject: Subject,
    measurements: Sequence[Measurement],
    load: Load,
    min_duration_s: float = MIN_DURATION_S,
) -> Iterator[str]:
    """Yield the reasons against a certificate, a sentence each."""
    if not load.certifies:
        yield (
            f"measured under the load '{load.name}': an idle host says "
            "nothing of a busy one"
        )
    there = {each.tool for each in measurements}
    for tool in CERTIFYING:
        if tool not in there:
            yield f"{tool} was not run"
    for each in measurements:
        for problem in each.problems:
            yield f"{each.tool}: {problem}"
        if each.tool in CERTIFYING and each.duration_s < 0.99 * min_duration_s:
            yield (
                f"{each.tool} ran for {each.duration_s:.0f} s, at least "
                f"{min_duration_s:.0f} s are needed"
            )
    if not conditions.is_identified(subject.after):
        yield (
            "this machine has no identity: its machine-id is missing or "
            "'uninitialized', and its firmware has no UUID; run "
            "systemd-machine-id-setup"
        )
    for name, then in subject.before.items():
        if subject.after.get(name) != then:
            yield f"{name} changed while it was measured"


def of_cpu(cpu: int, measurements: Sequence[Measurement]) -> CertifiedCpu:
    """Return the worst latency of a CPU by any tool, and its bounds."""
    found = [
        (each.max_us, run.duration_s, each)
        for run in measurements
        for each in run.cpus
        if each.cpu == cpu and each.samples
    ]
    _, duration_s, worst = max(found, key=lambda each: each[:2])
    said = bound.of(worst.max_us, worst.samples, duration_s, worst.maxima_us)
    return CertifiedCpu(
        cpu=cpu,
        max_us=worst.max_us,
        samples=worst.samples,
        once_in_s=said.once_in_s,
        estimate_us=said.estimate.bound_us,
        estimate_refused=said.estimate.refused,
    )
