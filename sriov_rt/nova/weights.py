# SPDX-License-Identifier: Apache-2.0

"""The scheduler's weigher, for ``[filter_scheduler] weight_classes``."""

import logging
from collections.abc import Sequence
from typing import Any

import nova.conf
from nova.scheduler import utils
from nova.scheduler import weights

from sriov_rt import request as requests
from sriov_rt.nova import request_spec
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker

_MULTIPLIER = "realtime_host_weight_multiplier"

LOG = logging.getLogger(__name__)

#: The request that a host satisfies if it is kept free for realtime instances.
_REALTIME = requests.Request(realtime=True, dedicated_cpus=True)


def all_weighers() -> list[Any]:
    """Return the classes of ``sriov_rt.scheduler_weighers`` for Nova.

    :raises ImportError: for an entry point that can't be loaded.
    """
    return request_spec.load("sriov_rt.scheduler_weighers")


class RealtimeHostWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """Keep realtime hosts free for realtime instances.

    For any other instance a realtime host weighs 0 and every other host 1;
    for realtime ones all hosts weigh the same. It never waits for facts.
    """

    # Bounds by which Nova normalises the weights.
    minval = 0.0
    maxval = 1.0

    def __init__(self) -> None:
        """Make the weigher, as nova-scheduler does when it starts.

        :raises OptionRejected: for an option with a bad value.
        """
        super().__init__()
        options.check(nova.conf.CONF)
        self._faulty = False

    def weight_multiplier(self, host_state: Any) -> float:
        """Return the multiplier of this weigher for a host.

        :param host_state: a HostState; its aggregates may override the option.
        """
        conf = nova.conf.CONF
        multiplier: float = utils.get_weight_multiplier(
            host_state,
            _MULTIPLIER,
            conf[options.GROUP].realtime_host_weight_multiplier,
        )
        return multiplier

    def weigh_objects(
        self, weighed_obj_list: Sequence[Any], weight_properties: Any
    ) -> list[float]:
        """Return a weight for each host."""
        hosts = [each.obj for each in weighed_obj_list]
        try:
            return _weights(hosts, weight_properties)
        except Exception:
            # It weighs hosts for flavors that request nothing of ours: these
            # are placed normally, whatever is wrong here.
            if not self._faulty:
                self._faulty = True
                LOG.exception(
                    "Realtime hosts are not kept free for realtime instances"
                )
            return [0.0] * len(hosts)

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        raise NotImplementedError("weigh_objects decides for all at once")


def _weights(hosts: Sequence[Any], spec: Any) -> list[float]:
    if _is_realtime(spec):
        return [0.0] * len(hosts)
    own = worker.of_this_process()
    own.start()
    realtime = {id(h) for h in own.verdicts.passing(_REALTIME, hosts)}
    return [0.0 if id(host) in realtime else 1.0 for host in hosts]


def _is_realtime(spec: Any) -> bool:
    try:
        request = requests.parse(request_spec.extra_specs(spec))
    except requests.RequestError:
        # No host passes the filter with invalid extra specs.
        return False
    return request.realtime_cpus
