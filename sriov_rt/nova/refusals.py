# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the scheduler's log says of hosts that do not satisfy a flavor."""

import logging
from typing import Any

from sriov_rt import request as requests
from sriov_rt.scheduler import refusals
from sriov_rt.scheduler.judge import Judge

#: One name for filter and weigher: operators set its level.
LOG = logging.getLogger("sriov_rt.nova.filters")


def log(
    judge: Judge,
    request: requests.Request,
    hosts: list[Any],
    passing: list[Any],
    spec: Any,
) -> None:
    """Log why hosts fail: each at DEBUG, a summary at INFO if all do.

    :param hosts: HostStates that were to be judged.
    :param passing: those of them that passed.
    :param spec: the RequestSpec.
    """
    nobody = bool(hosts) and not passing
    debug = LOG.isEnabledFor(logging.DEBUG)
    if len(passing) == len(hosts) or not (nobody or debug):
        return
    found = judge.refusals(request, hosts, spec.instance_uuid)
    if debug:
        for line in refusals.lines(found):
            LOG.debug("Instance %s: %s", spec.instance_uuid, line)
    if nobody:
        LOG.info(
            "No host satisfies flavor %s of instance %s: %s. "
            "'sriov-rt explain --flavor %s' says what to do on each.",
            spec.flavor.name,
            spec.instance_uuid,
            refusals.summary(found),
            spec.flavor.name,
        )
