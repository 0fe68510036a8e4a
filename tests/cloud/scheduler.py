# SPDX-License-Identifier: Apache-2.0

"""What the scheduler knows: asked for, and brought about."""

import subprocess
from collections.abc import Callable

from tests.cloud.base import SCHEDULER_LOG
from tests.cloud.base import CloudTestCase

#: Of nova-scheduler, as the cloud has it.
WORKERS = 2
#: RabbitMQ gives each worker requests in turn, once both listen to it.
_MOST_REQUESTS = 5


def explain(
    test: CloudTestCase, flavor: str, *options: str
) -> "subprocess.CompletedProcess[str]":
    """Run ``sriov-rt explain`` as an administrator does.

    :param test: the test that wants to know.
    :param flavor: the name of a flavor.
    :param options: further ones.
    """
    nova = test.cloud.place.etc / "nova" / "nova.conf"
    return test.command(
        "sriov-rt",
        "explain",
        f"--config-file={nova}",
        f"--flavor={flavor}",
        *options,
    )


def warm_up(test: CloudTestCase, ask: Callable[[], object]) -> None:
    """Start nova-scheduler anew, until each worker has had a request.

    A worker knows of no host before its first request, and of all after it.

    :param test: the test that wants it so.
    :param ask: makes a request with an extra spec of ours.
    """
    log = test.log(SCHEDULER_LOG)
    test.cloud.services.restart("nova-scheduler")
    warm = 0
    for _ in range(_MOST_REQUESTS):
        ask()
        warm = len(log.lines("Listening for reports"))
        if warm == WORKERS:
            break
    test.assertEqual(WORKERS, warm, "workers that had a request")
