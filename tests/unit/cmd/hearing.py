# SPDX-License-Identifier: Apache-2.0

"""Time that is over as soon as those have reported that will."""

import contextlib
from unittest import mock

from sriov_rt.cmd import collect

#: Far more than an agent of the in-memory driver needs on a busy machine.
_PATIENCE_S = 60.0


def over_after(*names: str) -> contextlib.AbstractContextManager[object]:
    """Let a command wait for these hosts, and not for its --wait.

    :param names: hosts that report; the command may expect others as well.
    """
    wait = collect.Hearing.wait

    def wait_for_names(self, expected, wait_s, report):
        wait(self, names, _PATIENCE_S, report)

    return mock.patch.object(collect.Hearing, "wait", wait_for_names)
