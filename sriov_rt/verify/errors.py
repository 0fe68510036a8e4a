# SPDX-License-Identifier: Apache-2.0

"""Errors of measurements and certificates."""

from collections.abc import Sequence

from sriov_rt import exceptions


class ToolsMissing(exceptions.SriovRtError):
    """Programs that measure are not installed.

    :param programs: pairs of a program and its Debian package.
    """

    def __init__(self, programs: Sequence[tuple[str, str]]) -> None:
        self.programs = tuple(programs)
        names = ", ".join(name for name, _ in self.programs)
        packages = " ".join(sorted({package for _, package in self.programs}))
        super().__init__(f"not installed: {names}; install {packages}")


class OutputInvalid(exceptions.SriovRtError, ValueError):
    """A program's output is not what its version prints.

    :param tool: its name.
    :param problem: what is wrong with it, one clause.
    """

    def __init__(self, tool: str, problem: str) -> None:
        self.tool = tool
        self.problem = problem
        super().__init__(
            f"{tool}: output not understood: {problem}; run it again, and "
            f"report the version of {tool} if it stays so"
        )


class RunFailed(exceptions.SriovRtError):
    """A program ended without a measurement.

    :param tool: its name.
    :param problem: its exit code or its last line.
    """

    def __init__(self, tool: str, problem: str) -> None:
        self.tool = tool
        self.problem = problem
        super().__init__(f"{tool} failed: {problem}")


class HotplugRefused(exceptions.SriovRtError):
    """A guest's vCPUs can't be plugged and unplugged.

    :param domain: its name or UUID.
    :param problem: why, and what to do.
    """

    def __init__(self, domain: str, problem: str) -> None:
        self.domain = domain
        self.problem = problem
        super().__init__(f"guest '{domain}': {problem}")


class NotIsolated(exceptions.SriovRtError):
    """There is no CPU to measure, or none to measure from."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class CpusOffline(exceptions.SriovRtError):
    """Dedicated pCPUs are offline, and cannot be measured.

    :param cpus: a CPU list.
    """

    def __init__(self, cpus: str) -> None:
        self.cpus = cpus
        super().__init__(
            f"dedicated pCPUs {cpus} are offline (Nova's "
            "cpu_power_management) and can't be measured; write 1 to "
            "/sys/devices/system/cpu/cpuN/online of each, measure, and "
            "restart nova-compute"
        )


class TargetUnusable(exceptions.SriovRtError):
    """A directory cannot be used for a measurement.

    :param problem: what is wrong with it, and what to do.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class NothingMeasured(exceptions.SriovRtError):
    """A directory has no results."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: no results in it; name a directory that 'sriov-rt "
            "verify' wrote to"
        )


class NothingInCommon(exceptions.SriovRtError):
    """Two measurements have no figure in common."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__(
            f"{before} and {after} have no figure in common; measure both in "
            "the same way"
        )


class PicturesUnavailable(exceptions.SriovRtError):
    """matplotlib or jinja2 is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "a page needs matplotlib and jinja2; install sriov-rt[report]"
        )


class Busy(exceptions.SriovRtError):
    """Another measurement is running on this host."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"another measurement holds {path}; wait for its end, two at "
            "once would measure each other"
        )


class CertificateRefused(exceptions.SriovRtError):
    """A measurement earns no certificate.

    :param reasons: why, a sentence each.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("no certificate: " + "; ".join(self.reasons))


class CertificateUnusable(exceptions.SriovRtError):
    """The file of the certificate can't be read as one.

    :param problem: the file, and what is wrong with it.
    :param remedy: what to do; by default with this host's own.
    """

    def __init__(
        self,
        problem: str,
        remedy: str = "measure with 'sriov-rt verify latency'",
    ) -> None:
        self.problem = problem
        super().__init__(f"{problem}; {remedy}")


class NotComparable(exceptions.SriovRtError):
    """A measurement was not made like that of the certificate.

    :param tool: tool of both measurements.
    """

    def __init__(self, tool: str, what: str, before: str, after: str) -> None:
        self.tool = tool
        self.what = what
        super().__init__(
            f"{tool} was measured with {what} '{after}', the certificate "
            f"with '{before}'; measure again as the certificate was"
        )
