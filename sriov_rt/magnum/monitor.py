# SPDX-License-Identifier: Apache-2.0

"""Health of a cluster, and errors of the management cluster."""

import requests
import yaml
from magnum.objects import fields
from magnum_capi_helm import driver_utils
from magnum_capi_helm.common import capi_monitor
from oslo_log import log as logging

from sriov_rt.magnum import errors

LOG = logging.getLogger(__name__)

#: Errors of a request to the management cluster, which is down, refuses it or
#: does not answer like a Kubernetes API server.
NO_ANSWER = (
    requests.RequestException,
    OSError,
    yaml.YAMLError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class Monitor(capi_monitor.CAPIMonitor):  # type: ignore[misc]
    """Health of a cluster, read from the management cluster."""

    def poll_health_status(self) -> None:
        """Set the cluster's health; UNKNOWN without a usable answer."""
        if not driver_utils.chart_release_name(self.cluster):
            self.data["health_status"] = fields.ClusterHealthStatus.UNHEALTHY
            self.data["health_status_reason"] = {
                "cluster": "The cluster was never built. Delete it."
            }
            return
        try:
            super().poll_health_status()
        except NO_ANSWER as error:
            LOG.warning(
                "Health of cluster %s: %s", self.cluster.uuid, unusable(error)
            )
            self.data["health_status"] = fields.ClusterHealthStatus.UNKNOWN
            self.data["health_status_reason"] = {
                "cluster": errors.sentence(str(unusable(error)))
            }


def unusable(error: Exception) -> errors.ManagementUnusable:
    """Return an error of :data:`NO_ANSWER` as a ManagementUnusable."""
    return errors.ManagementUnusable(f"{type(error).__name__}: {error}")
