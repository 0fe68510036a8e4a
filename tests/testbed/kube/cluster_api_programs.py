# SPDX-License-Identifier: Apache-2.0

"""Programs of Helm and of Cluster API, from their Go modules.

Neither module has replace directives, so `go install` takes them as they are,
and Go checks them and what they require against its checksum database.
"""

import pathlib
import shutil

from tests.testbed import paths
from tests.testbed.kube import toolchain
from tests.testbed.progress import Progress

#: The newest of July 2026; its k8s.io/client-go wants Go 1.26.
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
GO_FOR_HELM = "go1.26.8"

#: The last minor release that stores v1beta1, as the chart writes it: later
#: ones need a conversion webhook.
CLUSTER_API = "sigs.k8s.io/cluster-api@v1.10.4"
KUBEADM_BOOTSTRAP = "sigs.k8s.io/cluster-api/bootstrap/kubeadm@v1.10.4"

#: A small chart with capi-helm's names.
CHART = pathlib.Path(__file__).parent / "chart"

_CRDS = (
    "config/crd/bases",
    "bootstrap/kubeadm/config/crd/bases",
    "controlplane/kubeadm/config/crd/bases",
)


def helm(place: paths.Paths, progress: Progress) -> pathlib.Path:
    """Return the directory of the program helm, built if need be.

    :raises errors.TestbedError: when it can't be had.
    """
    return toolchain.make(
        toolchain.in_cache(place.cache, "helm", HELM, release=GO_FOR_HELM),
        lambda go, result: go.install(HELM, to=result),
        what="Helm",
        logs=place.log,
        progress=progress,
        release=GO_FOR_HELM,
    )


def controllers(place: paths.Paths, progress: Progress) -> pathlib.Path:
    """Return the directory of Cluster API's controllers, built if need be.

    :returns: cluster-api (Clusters, Machines, ClusterResourceSets) and
        kubeadm (bootstrap data) are in it.
    :raises errors.TestbedError: when they can't be had.
    """

    def fill(go: toolchain.Go, result: pathlib.Path) -> None:
        for each in (CLUSTER_API, KUBEADM_BOOTSTRAP):
            go.install(each, to=result)

    return toolchain.make(
        toolchain.in_cache(
            place.cache, "cluster-api", CLUSTER_API, KUBEADM_BOOTSTRAP
        ),
        fill,
        what="Cluster API",
        logs=place.log,
        progress=progress,
    )


def crds(place: paths.Paths, progress: Progress) -> pathlib.Path:
    """Return the directory of Cluster API's CRDs, downloaded if need be.

    :raises errors.TestbedError: when they can't be had.
    """

    def fill(go: toolchain.Go, result: pathlib.Path) -> None:
        source = go.source(CLUSTER_API)
        for part in _CRDS:
            for path in (source / part).glob("*.yaml"):
                shutil.copy(path, result)

    return toolchain.make(
        toolchain.in_cache(place.cache, "cluster-api-crds", CLUSTER_API),
        fill,
        what="Cluster API's CRDs",
        logs=place.log,
        progress=progress,
    )
