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

"""The scheduler's filter, for ``[filter_scheduler] available_filters``."""

import logging
from collections.abc import Iterable
from typing import Any

import nova.conf
from nova.scheduler import filters
from nova.scheduler import utils

from sriov_rt import request as requests
from sriov_rt.nova import plugins
from sriov_rt.nova import refusals
from sriov_rt.nova import requested
from sriov_rt.reason import reason
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker

LOG = logging.getLogger(__name__)


def all_filters() -> list[Any]:
    """Return the classes of ``sriov_rt.scheduler_filters`` for Nova.

    :raises ImportError: for an entry point that can't be loaded. Without its
        filter, nova-scheduler would place realtime instances anywhere.
    """
    return plugins.load("sriov_rt.scheduler_filters")


class RealtimeSriovFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Pass the hosts that satisfy the flavor's ``sriov_rt:`` extra specs.

    A flavor without any passes untouched and waits for nothing.
    """

    # A rebuild leaves the instance on its host, with its flavor: to refuse
    # it would not make the host any better.
    RUN_ON_REBUILD = False

    # Facts may change between two instances of a request.
    run_filter_once_per_request = False

    def __init__(self) -> None:
        """Make the filter, as nova-scheduler does when it starts.

        :raises OptionRejected: for an option with a bad value.
        """
        options.check(nova.conf.CONF)

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> Iterable[Any]:
        """Return the HostStates that pass.

        :param filter_obj_list: HostState objects.
        :param spec_obj: the RequestSpec.
        :raises nova.exception.NoValidHost: if none passes; see
            :func:`refusals.end`.
        """
        if not requests.asks(plugins.extra_specs(spec_obj)):
            return filter_obj_list
        if utils.request_is_rebuild(spec_obj):
            return filter_obj_list
        here = worker.of_this_process()
        hosts = list(filter_obj_list)
        try:
            request = requested.request(spec_obj, here.verdicts)
        except requests.RequestError as error:
            _refuse_all(hosts, spec_obj, error)
            return []
        here.warm_up(lambda: here.verdicts.known(hosts))
        passing = here.verdicts.passing(request, hosts, spec_obj.instance_uuid)
        refusals.log(here.verdicts, request, hosts, passing, spec_obj)
        if hosts and not passing:
            refusals.end(here.verdicts, request, hosts, spec_obj)
        return passing


def _refuse_all(
    hosts: list[Any], spec: Any, error: requests.RequestError
) -> None:
    why = reason("request_invalid", problems=str(error))
    LOG.info(
        "No host satisfies flavor %s of instance %s: %s × %d: %s",
        spec.flavor.name,
        spec.instance_uuid,
        why.code,
        len(hosts),
        why.message,
    )
    if hosts and refusals.is_single(spec):
        raise refusals.no_valid_host(f"{why.code}: {why.message}", spec)
