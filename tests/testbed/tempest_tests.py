# SPDX-License-Identifier: Apache-2.0

"""Tempest's tests by their names: which are run, and their results."""

import collections
import dataclasses
import re

#: The default tests: our own plugin.
PLUGIN = r"^sriov_rt_tempest_plugin\."
#: Its tests that are left to the periodic run, as CLASS or CLASS.TEST.
PERIODIC = (
    # They wait minutes for guests of an emulated host.
    "LifecycleTest",
    "ReachTest",
    "CleanVfTest",
    "DegradedHostTest",
    # tests/cloud boots such a server and checks its host; in ExplainTest one
    # that names a host is refused; TraitsTest reads the trait, and its effect
    # is up to Nova.
    "RealtimeServersTest",
    "ExplainTest.test_a_server_lands_on_a_host_that_passes",
    # tests/cloud tests it with the hosts' weights reversed.
    "OrdinaryServersTest.test_an_ordinary_server_avoids_realtime_hosts",
)
LEFT_OUT = rf"^sriov_rt_tempest_plugin\..*\.({'|'.join(PERIODIC)})\b"

#: A class that can't be set up is a test named "setUpClass (CLASS)".
_RESULT = re.compile(
    r"^\{[0-9]+\} (?P<test>(?:\w+ \()?[\w.]+).* \.\.\. "
    r"(?P<result>ok|FAILED|SKIPPED)",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True)
class Results:
    """Results of a run of Tempest.

    :param status: its exit status.
    :param tests: "ok", "FAILED" or "SKIPPED", by the test's name.
    """

    status: int
    tests: dict[str, str]

    @classmethod
    def of(cls, status: int, output: str) -> "Results":
        """Read the output of tempest-run.

        :param status: its exit status.
        :param output: what it printed.
        """
        found = _RESULT.finditer(output)
        return cls(
            status,
            {each["test"].replace("(", ""): each["result"] for each in found},
        )


def _room(test: str) -> str:
    """Return the package of a test, as in tempest.api.compute.

    :param test: its name.
    """
    words = test.rpartition(" ")[2].split(".")
    return ".".join(words[: 3 if words[1] == "api" else 2])


def table(without: Results, ours: Results) -> str:
    """Return both results in one table, and the tests that differ.

    :param without: of the cloud without sriov-rt.
    :param ours: of the cloud with it.
    """
    rooms = sorted({_room(each) for each in without.tests | ours.tests})
    lines = [
        f"{'':30} {'without sriov-rt':>23}  {'with sriov-rt':>23}",
        f"{'tests':30}" + f" {'passed':>7} {'failed':>7} {'skipped':>7} " * 2,
    ]
    for room in [*rooms, ""]:
        cells = []
        for results in (without, ours):
            counts = collections.Counter(
                result
                for test, result in results.tests.items()
                if not room or _room(test) == room
            )
            cells += [counts[kind] for kind in ("ok", "FAILED", "SKIPPED")]
        lines.append(
            f"{room or 'all':30}"
            + " {:7} {:7} {:7} ".format(*cells[:3])
            + " {:7} {:7} {:7} ".format(*cells[3:])
        )
    lines += [
        f"{test}: {without.tests.get(test, 'not run')} without, "
        f"{ours.tests.get(test, 'not run')} with"
        for test in different(without, ours)
    ]
    return "\n".join(each.rstrip() for each in lines)


def different(without: Results, ours: Results) -> list[str]:
    """Return the tests whose results are not the same.

    :param without: results of the cloud without sriov-rt.
    :param ours: results of the cloud with it.
    """
    return sorted(
        test
        for test in without.tests | ours.tests
        if without.tests.get(test) != ours.tests.get(test)
    )
