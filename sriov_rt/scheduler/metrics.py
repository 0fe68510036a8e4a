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

"""Metrics of the realtime decisions of one nova-scheduler worker."""

import contextlib
import errno
import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from oslo_config import cfg

from sriov_rt import exceptions

LOG = logging.getLogger(__name__)

GROUP = "sriov_rt"

#: Name to its help: every metric of nova-scheduler.
HELP = {
    "sriov_rt_scheduler_filter_seconds": (
        "Time of the filter for a request with sriov_rt extra specs."
    ),
    "sriov_rt_scheduler_weigher_seconds": (
        "Time of the weigher for a request that is not realtime."
    ),
    "sriov_rt_scheduler_refusals_total": (
        "Requests that no host satisfied, by the code of each Reason."
    ),
}

#: Bounds of the histograms, seconds: a verdict that is kept takes 0.3 µs, and
#: a request may have some thousand hosts.
BUCKETS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class Unmeasured:
    """No metrics, where they are not enabled."""

    def serve(self) -> None:
        """Serve nothing."""

    def stop(self) -> None:
        """Stop nothing."""

    def filtering(self) -> AbstractContextManager[Any]:
        """Measure nothing."""
        return contextlib.nullcontext()

    def weighing(self) -> AbstractContextManager[Any]:
        """Measure nothing."""
        return contextlib.nullcontext()

    def refused(self, codes: Iterable[str]) -> None:
        """Count nothing."""


class Metrics(Unmeasured):
    """The metrics, and their endpoint in threads of its own.

    :param library: prometheus_client.
    :param address: to listen on.
    :param ports: those that it may take, the first free one.
    """

    def __init__(
        self, library: Any, address: str, ports: Iterable[int]
    ) -> None:
        self._library = library
        self._address, self.ports = address, tuple(ports)
        self._server: Any = None
        self.registry = library.CollectorRegistry()
        self._filter, self._weigher = (
            library.Histogram(
                name, HELP[name], buckets=BUCKETS, registry=self.registry
            )
            for name in (
                "sriov_rt_scheduler_filter_seconds",
                "sriov_rt_scheduler_weigher_seconds",
            )
        )
        name = "sriov_rt_scheduler_refusals_total"
        self._refusals = library.Counter(
            name, HELP[name], ["code"], registry=self.registry
        )

    def serve(self) -> None:
        """Start to serve; that no port is free is logged."""
        problem = ""
        for port in self.ports:
            try:
                self._server, _ = self._library.start_http_server(
                    port, self._address, self.registry
                )
            except OSError as error:
                problem = exceptions.plain(error)
                if error.errno == errno.EADDRINUSE:
                    continue
                break
            LOG.info("Metrics are served on %s:%d", self._address, port)
            return
        LOG.warning(
            "No metrics of this worker are served on %s:%d to %d (%s); change "
            "[sriov_rt] metrics_address, metrics_port or metrics_ports, and "
            "restart nova-scheduler",
            self._address,
            self.ports[0],
            self.ports[-1],
            problem,
        )

    def stop(self) -> None:
        """Cease to serve."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def filtering(self) -> AbstractContextManager[Any]:
        """Measure one run of the filter."""
        timing: AbstractContextManager[Any] = self._filter.time()
        return timing

    def weighing(self) -> AbstractContextManager[Any]:
        """Measure one run of the weigher."""
        timing: AbstractContextManager[Any] = self._weigher.time()
        return timing

    def refused(self, codes: Iterable[str]) -> None:
        """Count a request that no host satisfied.

        :param codes: each Reason's, once.
        """
        for code in codes:
            self._refusals.labels(code).inc()


def make(conf: cfg.ConfigOpts) -> Unmeasured:
    """Return the metrics that the configuration of nova-scheduler asks for.

    Without the library there are none, and a line in the log: scheduling
    goes on.
    """
    group = conf[GROUP]
    if not group.metrics_enabled:
        return Unmeasured()
    try:
        # Late, since it is an extra.
        import prometheus_client
    except ImportError:
        LOG.error(
            "[sriov_rt] metrics_enabled needs prometheus_client; run 'pip "
            "install sriov-rt[metrics]' in nova-scheduler's environment"
        )
        return Unmeasured()
    first = group.metrics_port
    ports = range(first, min(first + group.metrics_ports, 65536))
    return Metrics(prometheus_client, group.metrics_address, ports)
