# SPDX-License-Identifier: Apache-2.0

"""Tempest's own tests, without sriov-rt and with it: the same results.

python3 -m tests.testbed inside -- python3 -m tests.testbed.tempest_compare

runs those of OWN, or of the regular expression behind it. The cloud is changed
for the run without: no filter and weighers in nova-scheduler, Nova's own
compute driver on std-1, no mechanism driver in Neutron, no agent. Other hosts
take no servers meanwhile, and need not be there. What can't be switched off is
the validators of nova-api, which are there once sriov-rt is installed. The
cloud is left as it was.
"""

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Iterator
from typing import IO

from tests.testbed import joining
from tests.testbed import tempest_config
from tests.testbed import tempest_run
from tests.testbed.cloud import Cloud
from tests.testbed.devstack import nodes
from tests.testbed.services import STD
from tests.testbed.tempest_tests import Results
from tests.testbed.tempest_tests import different
from tests.testbed.tempest_tests import table

#: Tempest's smoke tests, its tests of servers' actions, and its scenarios with
#: servers that don't log in to them: guests have no SSH.
OWN = (
    r"(^tempest\..*\[.*\bsmoke\b.*\])"
    r"|(^tempest\.api\.compute\.servers\.test_server_actions\.)"
    r"|(^tempest\.scenario\.test_(minimum|server)_)"
)

_AGENT = "sriov-rt-agent"
#: The services that are changed, in the order of their start.
_SERVICES = ("neutron", "neutron-rpc-server", "nova-scheduler", "nova-compute")


def _files(cloud: Cloud) -> list[pathlib.Path]:
    etc = cloud.place.etc
    return [
        etc / "nova" / "nova.conf",
        etc / "nova-compute" / "nova.conf",
        etc / "neutron" / "ml2_conf.ini",
    ]


@contextlib.contextmanager
def _without(cloud: Cloud) -> Iterator[None]:
    """Take sriov-rt out of the cloud meanwhile."""
    before = {file: file.read_text() for file in _files(cloud)}
    try:
        cloud.services.stop(_AGENT)
        for file, text in before.items():
            changed = nodes.without_ours(text)
            assert changed != text, f"nothing of ours in {file}"
            file.write_text(changed)
        _restart(cloud)
        yield
    finally:
        for file, text in before.items():
            file.write_text(text)
        _restart(cloud)
        cloud.services.start(_AGENT)


def _restart(cloud: Cloud) -> None:
    for name in _SERVICES:
        cloud.services.restart(name)
    joining.wait_compute(
        cloud.api, STD, lambda: cloud.services.status()[STD]["nova-compute"]
    )


@contextlib.contextmanager
def _std_alone(cloud: Cloud) -> Iterator[None]:
    """Let no host but std-1 take servers meanwhile."""
    compute = cloud.api.compute
    others = [
        each
        for each in compute.services(binary="nova-compute")
        if each.host != STD and each.status == "enabled"
    ]
    try:
        for each in others:
            compute.disable_service(each)
        yield
    finally:
        for each in others:
            compute.enable_service(each)


def run(
    cloud: Cloud, regex: str = OWN, sink: IO[str] | None = None
) -> tuple[Results, Results]:
    """Run Tempest's own tests without sriov-rt, and with it.

    :param cloud: the cloud.
    :param regex: pattern of the tests to run.
    :param sink: stream for Tempest's output; standard output if None.
    :returns: the results of both, in this order.
    """
    config = tempest_config.write(cloud, ours=False)
    chosen = ("--regex", regex)
    with _std_alone(cloud):
        ours = tempest_run.run(cloud, config, *chosen, sink=sink)
        with _without(cloud):
            without = tempest_run.run(cloud, config, *chosen, sink=sink)
    return without, ours


def main() -> int:
    """Run both and print the table; return 1 if they differ."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.testbed.tempest_compare", description=__doc__
    )
    parser.add_argument("regex", nargs="?", default=OWN)
    without, ours = run(Cloud(), parser.parse_args().regex)
    print(table(without, ours), flush=True)
    nothing = "ok" not in ours.tests.values()
    return 1 if nothing or different(without, ours) else 0


if __name__ == "__main__":
    sys.exit(main())
