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

"""What is said of hosts that do not satisfy a flavor: in log and fault."""

import logging
from typing import Any

from nova import exception

from sriov_rt import request as requests
from sriov_rt.scheduler.verdicts import Verdicts
from sriov_rt.scheduler.verdicts import lines
from sriov_rt.scheduler.verdicts import summary

#: One name for filter and weigher: operators set its level.
LOG = logging.getLogger("sriov_rt.nova.filters")


def log(
    verdicts: Verdicts,
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
    found = verdicts.refusals(request, hosts, spec.instance_uuid)
    if debug:
        for line in lines(found):
            LOG.debug("Instance %s: %s", spec.instance_uuid, line)
    if nobody:
        LOG.info(
            "No host satisfies flavor %s of instance %s: %s. "
            "'sriov-rt explain --flavor %s' says what to do on each.",
            spec.flavor.name,
            spec.instance_uuid,
            summary(found),
            spec.flavor.name,
        )


def end(
    verdicts: Verdicts, request: requests.Request, hosts: list[Any], spec: Any
) -> None:
    """End a request that no host satisfies with a fault that says why.

    Nova's own fault has no more than that there is no valid host. Of several
    servers in one request the earlier ones may have claimed their hosts,
    which Nova gives back only where a filter returns no host: there the log
    has to do.

    :param hosts: HostStates, of which none passed.
    :param spec: the RequestSpec.
    :raises nova.exception.NoValidHost: with the Reasons' codes, and who
        says more.
    """
    if not is_single(spec):
        return
    found = verdicts.refusals(request, hosts, spec.instance_uuid)
    codes = dict.fromkeys(r.code for each in found for r in each.reasons)
    raise no_valid_host(", ".join(codes), spec)


def is_single(spec: Any) -> bool:
    """Return whether a RequestSpec is known to be of one server only."""
    return bool(
        spec.obj_attr_is_set("num_instances") and spec.num_instances == 1
    )


def no_valid_host(why: str, spec: Any) -> exception.NoValidHost:
    """Return Nova's fault of a server that no host may have.

    :param why: a clause; it comes last, since Nova cuts a fault to 255
        characters.
    :param spec: the RequestSpec.
    """
    return exception.NoValidHost(
        reason=f"An administrator sees what to do by 'sriov-rt explain "
        f"--flavor {spec.flavor.name}': {why}"
    )
