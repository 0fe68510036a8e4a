# SPDX-License-Identifier: Apache-2.0

"""Errors of the Magnum driver, shown in ``status_reason``."""

from collections.abc import Sequence

from sriov_rt import exceptions
from sriov_rt.reason import first_of

#: The longest sentence; MySQL keeps 64 KiB in a TEXT column.
MAX_SENTENCE = 2000

#: The most problems that a sentence names; it counts the rest.
MAX_PROBLEMS = 8


class MagnumError(exceptions.SriovRtError):
    """The base of the driver's errors."""


class NodegroupRefused(MagnumError):
    """A nodegroup that cannot be built.

    :param problems: a clause each, at least one.
    :param is_warning: whether an option allows to build it all the same.
    """

    def __init__(
        self, name: str, problems: Sequence[str], *, is_warning: bool = False
    ) -> None:
        self.name = name
        self.problems = tuple(problems)
        self.is_warning = is_warning
        verdict = "may not start" if is_warning else "is refused"
        super().__init__(f"nodegroup {name!r} {verdict}: {joined(problems)}")


class CloudUnusable(MagnumError):
    """Nova, Neutron or Placement gave no usable answer.

    :param why: a clause.
    :param status: HTTP status, if it answered.
    """

    def __init__(
        self, service: str, why: str, status: int | None = None
    ) -> None:
        self.service = service
        self.status = status
        self.why = why
        super().__init__(
            f"no usable answer from {service} ({why}); check that it runs and "
            "that magnum.conf names its region, and try again"
        )


#: Beginning of the sentence of :class:`ManagementUnusable`.
NO_MANAGEMENT = "no usable answer from the management cluster"


class ManagementUnusable(MagnumError):
    """The API of the management cluster gave no usable answer.

    :param why: a clause.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"{NO_MANAGEMENT} ({why}); check that its API server "
            "runs and that [capi_helm] kubeconfig_file names it"
        )


class HelmFailed(MagnumError):
    """Helm could not be run, or failed.

    :param problem: a clause.
    :param remedy: what to do, a clause.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}; {remedy}")


class SeveralRefused(MagnumError):
    """More than one nodegroup is refused."""


def several(refused: Sequence[NodegroupRefused]) -> MagnumError:
    """Return one error for one or more refused nodegroups."""
    if len(refused) == 1:
        return refused[0]
    return SeveralRefused(joined([str(each) for each in refused]))


def joined(problems: Sequence[str]) -> str:
    """Return one clause with the first problems and the number of others."""
    return first_of(problems, MAX_PROBLEMS, "; ")


def sentence(text: str, remedy: str = "") -> str:
    """Return a text that Magnum's database accepts, whatever it quotes.

    The text is ASCII and of bounded length. MySQL refuses characters that its
    character set lacks, so the failure would not be saved.

    :param remedy: what to do, a clause, which is never cut off.
    """
    plain = text.encode("ascii", "backslashreplace").decode("ascii")
    clean = "".join(each if each.isprintable() else " " for each in plain)
    end = f"; {remedy}" if remedy else ""
    room = MAX_SENTENCE - len(end)
    if len(clean) > room:
        clean = clean[: room - 3] + "..."
    return clean + end
