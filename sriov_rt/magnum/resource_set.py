# SPDX-License-Identifier: Apache-2.0

"""Add-ons in Cluster API's ClusterResourceSet of the management cluster."""

from collections.abc import Iterable
from collections.abc import Mapping

import requests
from magnum_capi_helm import kubernetes

from sriov_rt.magnum.addons import Addon

#: The type of a Secret that Cluster API applies (exp/addons/api/v1beta1).
SECRET_TYPE = "addons.cluster.x-k8s.io/resource-set"  # noqa: S105

#: Label of the chart's Cluster (openstack-cluster.selectorLabels).
CLUSTER_LABEL = "capi.stackhpc.com/cluster"

#: The label by which magnum-capi-helm finds its objects.
UUID_LABEL = "magnum.openstack.org/cluster-uuid"

#: Statuses from a management cluster that does not serve the kind, or does not
#: let Magnum use it: no set was ever created there.
NEVER_MADE = (403, 404)


class ClusterResourceSet(kubernetes.Resource):  # type: ignore[misc]
    """Client of Cluster API's kind ClusterResourceSet."""

    api_version = "addons.cluster.x-k8s.io/v1beta1"


def apply(
    client: kubernetes.Client,
    release: str,
    namespace: str,
    labels: Mapping[str, str],
    addons: Iterable[Addon],
    images: Mapping[str, str],
    release_of_kubernetes: str | None = None,
) -> None:
    """Hand Cluster API the add-ons of a release's cluster.

    :param client: client of the management cluster.
    :param labels: labels of the objects, including :data:`UUID_LABEL`.
    :param release_of_kubernetes: Kubernetes release of the cluster.
    """
    names = []
    for each in addons:
        names.append(f"{release}-{each.name}-addon")
        client.apply_secret(
            names[-1],
            {
                "metadata": {"labels": dict(labels)},
                "type": SECRET_TYPE,
                "stringData": each.rendered(images, release_of_kubernetes),
            },
            namespace,
        )
    if not names:
        delete(client, labels[UUID_LABEL], namespace)
        return
    ClusterResourceSet(client).apply(
        f"{release}-addons",
        {
            "metadata": {"labels": dict(labels)},
            "spec": {
                "clusterSelector": {"matchLabels": {CLUSTER_LABEL: release}},
                "strategy": "Reconcile",
                "resources": [
                    {"kind": "Secret", "name": name} for name in names
                ],
            },
        },
        namespace,
    )


def delete(client: kubernetes.Client, uuid: str, namespace: str) -> None:
    """Delete the set of a cluster, if there is one.

    Its Secrets are deleted with the cluster's others, when the cluster is.
    """
    try:
        ClusterResourceSet(client).delete_all_by_label(
            UUID_LABEL, uuid, namespace
        )
    except requests.HTTPError as error:
        if getattr(error.response, "status_code", None) not in NEVER_MADE:
            raise
