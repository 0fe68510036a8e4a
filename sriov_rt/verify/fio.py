# SPDX-License-Identifier: Apache-2.0

"""fio: bandwidth, IOPS and latency of a file system."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.tool_json import number
from sriov_rt.verify.tool_json import table

TOOL = "fio"
PACKAGE = "fio"

#: Patterns of reads and writes, as values of ``--rw``.
PATTERNS = ("read", "randread", "write", "randwrite")

#: The longest output, in bytes; one group with its bins takes 100 kB.
MAX_OUTPUT = 16 * 1024 * 1024

#: The least part of all workers' time that has to be measured; less means
#: that a worker has died.
_MIN_RUNTIME = 0.99

_PERCENTILE = "99.000000"

_VERSION = re.compile(r"fio-(\d{1,4})\.(\d{1,4})")

#: The first version that reports job_runtime (stat.c).
_FIRST = (3, 8)


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """Job of one run of fio.

    :param pattern: one of PATTERNS.
    :param block: bytes of each request.
    :param depth: requests that each worker has in flight.
    :param workers: number of processes.
    :param size_mib: size of each worker's file, or of the shared file.
    :param shared: whether all have the same file.
    :param runtime_s: how long it measures.
    """

    pattern: str
    block: int
    depth: int
    workers: int
    size_mib: int
    shared: bool
    runtime_s: int

    @property
    def data_size(self) -> int:
        """Bytes of its files."""
        files = 1 if self.shared else self.workers
        return files * self.size_mib * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run of fio.

    :param bandwidth: bytes a second.
    :param iops: requests a second.
    :param mean_us: mean completion latency.
    :param p99_us: 99th percentile of the completion latency.
    :param max_us: worst completion latency.
    :param error: standard error of the bandwidth, from its samples of half a
        second.
    """

    bandwidth: float
    iops: float
    mean_us: float
    p99_us: float
    max_us: float
    error: float = 0.0


def command(job: Job) -> tuple[str, ...]:
    """Return the command line, to be run in the directory of its files.

    No directory is named, since fio splits its name at colons and expands
    it. Except for sizes this is the job file that StackHPC published.
    """
    return (
        TOOL,
        "--name=disk",
        "--directory=.",
        # A format names the file of the first worker only (fio 3.33, 3.41).
        "--filename=shared.dat"
        if job.shared
        else "--filename_format=$jobnum.dat",
        # 9p lacks fallocate(), and fio says so in the middle of the JSON.
        "--fallocate=none",
        f"--runtime={job.runtime_s}",
        "--time_based=1",
        "--ioengine=libaio",
        f"--iodepth={job.depth}",
        "--direct=1",
        "--invalidate=1",
        "--thread=0",
        f"--numjobs={job.workers}",
        "--group_reporting=1",
        f"--size={job.size_mib}m",
        f"--rw={job.pattern}",
        f"--blocksize={job.block}",
        "--output-format=json+",
        "--eta=never",
    )


def parse(output: bytes, job: Job) -> tuple[str, Figures]:
    """Return the version and the figures.

    :param output: output of fio; lines before the JSON are ignored.
    :raises OutputInvalid: if it is not in the format of fio 3, or lacks
        workers.
    :raises RunFailed: if fio is too old to report the figures.
    """
    if len(output) > MAX_OUTPUT:
        raise OutputInvalid(TOOL, f"longer than {MAX_OUTPUT} bytes")
    found = _document(output)
    version = found.get("fio version")
    if type(version) is not str or len(version) > 64:
        raise OutputInvalid(TOOL, "no version in it")
    named = _VERSION.match(version)
    if named and (int(named[1]), int(named[2])) < _FIRST:
        raise RunFailed(
            TOOL,
            f"{version} does not report how long its workers ran; install "
            "fio 3.8 or later",
        )
    jobs = found.get("jobs")
    if type(jobs) is not list or len(jobs) != 1:
        raise OutputInvalid(TOOL, "one group of jobs expected")
    (group,) = jobs
    if type(group) is not dict:
        raise OutputInvalid(TOOL, "jobs")
    if error := number(TOOL, group, "error"):
        raise OutputInvalid(TOOL, f"its error {error:.0f}")
    least = _MIN_RUNTIME * 1000 * job.runtime_s * job.workers
    ran = number(TOOL, group, "job_runtime")
    if ran < least:
        raise OutputInvalid(
            TOOL, f"its workers ran for {ran:.0f} of {least:.0f} ms"
        )
    half = table(TOOL, group, job.pattern.removeprefix("rand"))
    latency = table(TOOL, half, "clat_ns")
    if not number(TOOL, half, "total_ios"):
        raise OutputInvalid(TOOL, "no request was completed")
    return version, Figures(
        bandwidth=number(TOOL, half, "bw_bytes"),
        iops=number(TOOL, half, "iops"),
        mean_us=number(TOOL, latency, "mean") / 1000,
        p99_us=number(TOOL, table(TOOL, latency, "percentile"), _PERCENTILE)
        / 1000,
        max_us=number(TOOL, latency, "max") / 1000,
        error=_error(half),
    )


def _error(half: Mapping[str, Any]) -> float:
    """Return a bandwidth's standard error in bytes/s; fio has KiB/s."""
    samples = number(TOOL, half, "bw_samples")
    return 1024 * number(TOOL, half, "bw_dev") / math.sqrt(max(samples, 1.0))


def _document(output: bytes) -> Mapping[str, Any]:
    begin = output.find(b"{")
    try:
        found = documents.plain(output[max(begin, 0) :], MAX_OUTPUT)
    except codec.SchemaError as error:
        raise OutputInvalid(TOOL, error.problem) from None
    if type(found) is not dict:
        raise OutputInvalid(TOOL, "not JSON: object expected")
    return found
