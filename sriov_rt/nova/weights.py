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

"""The scheduler's weigher, for ``[filter_scheduler] weight_classes``."""

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

import nova.conf
from nova.scheduler import utils
from nova.scheduler import weights

from sriov_rt import request as requests
from sriov_rt.nova import plugins
from sriov_rt.nova import refusals
from sriov_rt.nova import requested
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker

_MULTIPLIER = "realtime_host_weight_multiplier"

#: Nova's own weighers come to some 1e6 (``build_failure_weight_multiplier``).
_DECISIVE = 1e12

#: What a host satisfies that is to be kept free for realtime instances.
_REALTIME = requests.Request(realtime=True, dedicated_cpus=True)


def all_weighers() -> list[Any]:
    """Return the classes of ``sriov_rt.scheduler_weighers`` for Nova.

    The one that places is the last: it goes by the weights so far.

    :raises ImportError: for an entry point that can't be loaded.
    """
    found = plugins.load("sriov_rt.scheduler_weighers")
    return sorted(found, key=lambda each: each is OnloadPlacementWeigher)


class RealtimeHostWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """Keep realtime hosts free for realtime instances.

    For any other instance a realtime host weighs 0 and every other host 1;
    for realtime ones all hosts weigh the same. It never waits for facts.
    """

    # Nova scales weights to what lies between these.
    minval = 0.0
    maxval = 1.0

    def weight_multiplier(self, host_state: Any) -> float:
        """Return how much the weigher counts.

        :param host_state: a HostState; its aggregates may override.
        """
        conf = nova.conf.CONF
        options.register(conf)
        multiplier: float = utils.get_weight_multiplier(
            host_state,
            _MULTIPLIER,
            conf[options.GROUP].realtime_host_weight_multiplier,
        )
        return multiplier

    def weigh_objects(
        self, weighed_obj_list: Sequence[Any], weight_properties: Any
    ) -> list[float]:
        """Return a weight for each host.

        :param weighed_obj_list: WeighedHost objects.
        :param weight_properties: the RequestSpec.
        """
        here = worker.of_this_process()
        here.start()
        if _is_realtime(weight_properties):
            return [0.0] * len(weighed_obj_list)
        hosts = [each.obj for each in weighed_obj_list]
        realtime = {id(h) for h in here.judge.passing(_REALTIME, hosts)}
        return [0.0 if id(host) in realtime else 1.0 for host in hosts]

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        raise NotImplementedError("weigh_objects decides for all at once")


class OnloadPlacementWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """Decide where an instance goes that Onload accelerates, and note it.

    Requests that are judged at the same time pass the same hosts. Here each
    takes the best one that nobody took meanwhile, and so the next one sees
    it. Hosts that were lost so are left without allocation candidates: Nova
    skips them, and finds no valid host where none is left.
    """

    # Nova scales weights to what lies between these.
    minval = 0.0
    maxval = 1.0

    def weight_multiplier(self, host_state: Any) -> float:
        """Return what no sum of other weights comes up to."""
        return _DECISIVE

    def weigh_objects(
        self, weighed_obj_list: Sequence[Any], weight_properties: Any
    ) -> list[float]:
        """Return 1 for the host that the instance goes to, 0 for the others.

        :param weighed_obj_list: WeighedHost objects with their weights so far.
        :param weight_properties: the RequestSpec.
        """
        nothing = [0.0] * len(weighed_obj_list)
        spec = weight_properties
        if not requests.asks(plugins.extra_specs(spec)):
            return nothing
        here = worker.of_this_process()
        try:
            request = requested.request(spec, here.judge)
        except requests.RequestError:
            # No host passes the filter with it.
            return nothing
        if not requested.keeps_apart(request):
            return nothing
        instance = spec.instance_uuid
        hosts = [each.obj for each in weighed_obj_list]
        ordered = sorted(
            weighed_obj_list, key=lambda each: _rank(each, instance)
        )
        names = [each.obj.host for each in ordered]
        placed = here.place(request, instance, names)
        if placed is None:
            refusals.log(here.judge, request, hosts, [], spec)
        winner = None if placed is None else placed.host
        for each in weighed_obj_list:
            host = each.obj.host
            if host != winner and (
                winner is None
                or not here.judge.is_apart(request, host, instance)
            ):
                _take_away(each)
        return [float(each.obj.host == winner) for each in weighed_obj_list]

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        raise NotImplementedError("weigh_objects decides for all at once")


def _rank(weighed: Any, instance: str) -> tuple[float, bytes]:
    """Return what sorts the best host first.

    Of equal ones each instance has its own order, the same in all workers:
    two that know nothing of each other yet seldom take the same.
    """
    name = f"{instance} {weighed.obj.host}".encode()
    return -weighed.weight, hashlib.sha256(name).digest()


def _take_away(weighed: Any) -> None:
    # A copy: the HostState is other requests' as well.
    weighed.obj = copy.copy(weighed.obj)
    weighed.obj.allocation_candidates = []


def _is_realtime(spec: Any) -> bool:
    try:
        request = requests.parse(plugins.extra_specs(spec))
    except requests.RequestError:
        # No host passes the filter with it.
        return False
    return request.realtime_cpus
