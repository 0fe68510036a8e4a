# SPDX-License-Identifier: Apache-2.0

"""Cluster API's kinds and controllers, beside an API server."""

import http.client
import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Self

import yaml
from kubernetes import dynamic
from kubernetes.client import ApiClient
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from tests.testbed import paths
from tests.testbed.kube import cluster_api_programs
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.ports import Ports
from tests.testbed.progress import Progress
from tests.testbed.service import Service
from tests.testbed.waiting import wait_for

#: For one answer of the API server.
_SECONDS = 30.0

_CONTROLLERS = ("cluster-api", "kubeadm")

#: Kinds of which no Go module has a CRD: that of the OpenStack provider, and
#: that of capi-addon-provider.
_OPEN = (
    ("infrastructure.cluster.x-k8s.io", "v1beta1", "OpenStackCluster"),
    ("infrastructure.cluster.x-k8s.io", "v1beta1", "OpenStackMachine"),
    ("infrastructure.cluster.x-k8s.io", "v1beta1", "OpenStackMachineTemplate"),
    ("addons.stackhpc.com", "v1alpha1", "Manifests"),
    ("addons.stackhpc.com", "v1alpha1", "HelmRelease"),
)


class Controllers:
    """Cluster API's own controllers, beside an API server.

    They are the core controllers, that of ClusterResourceSets among them, and
    those that make the user data of kubeadm's nodes.

    :param kube: the management cluster.
    :param programs: the directory of :func:`cluster_api_programs.controllers`.
    """

    def __init__(self, kube: Kube, programs: pathlib.Path) -> None:
        self._kube = kube
        self._programs = programs
        self._ports = Ports(kube.place.run / "controllers")

    def start(self) -> None:
        """Start them, and wait until they work.

        :raises errors.TestbedError: when one doesn't come up.
        """
        self.stop()
        etc = self._kube.place.etc
        # Nobody calls their webhooks, which do not start without it.
        self._kube.server.authority.issue(
            etc / "tls.crt", "webhooks", seconds=86400.0
        )
        shutil.copy(etc / "tls.crt", etc / "tls.key")
        for each in self._services():
            each.start(self._kube.place)
        for each in self._services():
            each.wait(self._kube.place)

    def stop(self) -> None:
        """Stop them.

        :raises errors.TimedOut: when one can't be ended.
        """
        for each in self._services():
            each.stop(self._kube.place)

    def _services(self) -> tuple[Service, ...]:
        return tuple(self._service(name) for name in _CONTROLLERS)

    def _service(self, name: str) -> Service:
        health = self._ports.of(f"{name}-health")
        return Service(
            name=f"controller-{name}",
            command=(
                str(self._programs / name),
                f"--kubeconfig={self._kube.kubeconfig}",
                f"--health-addr=127.0.0.1:{health}",
                f"--webhook-port={self._ports.of(f'{name}-webhook')}",
                f"--webhook-cert-dir={self._kube.place.etc}",
                "--diagnostics-address=0",
                # Otherwise they look again after minutes.
                "--sync-period=10s",
            ),
            environment={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self._kube.place.run),
                "POD_NAMESPACE": "default",
            },
            ready=lambda: _ready(health),
        )


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def install_crds(admin: ApiClient, place: paths.Paths) -> None:
    """Give an API server Cluster API's kinds, and open ones of others.

    :param admin: a client that may.
    :raises kubernetes.client.ApiException: when it refuses.
    """
    client = dynamic.DynamicClient(admin)
    api = client.resources.get(
        api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition"
    )
    crds = cluster_api_programs.crds(place, Progress())
    found = [yaml.safe_load(path.read_text()) for path in crds.glob("*.yaml")]
    kinds = (*found, *(_open(*kind) for kind in _OPEN))
    for each in kinds:
        # By which Cluster API finds the version of a contract.
        labels = each["metadata"].setdefault("labels", {})
        labels["cluster.x-k8s.io/v1beta1"] = "v1beta1"
        api.create(body=each)
    wanted = {_Kind.of(each, name) for each in kinds for name in _served(each)}
    for what, probe in (
        ("discovery has", lambda: wanted <= _discovered(admin)),
        ("storage has", lambda: all(_listed(admin, each) for each in wanted)),
    ):
        wait_for(
            f"the API server's {what} {len(wanted)} kinds",
            probe,
            timeout=120,
            unanswered=(ApiException, HTTPError),
        )


class _Kind(NamedTuple):
    """What an object's apiVersion and kind name."""

    group: str
    version: str
    kind: str
    plural: str

    @classmethod
    def of(cls, crd: Mapping[str, Any], version: str) -> Self:
        """Return what a CRD makes, in one of its versions."""
        spec = crd["spec"]
        names = spec["names"]
        return cls(spec["group"], version, names["kind"], names["plural"])


def _served(crd: Mapping[str, Any]) -> list[str]:
    return [v["name"] for v in crd["spec"]["versions"] if v["served"]]


def _discovered(admin: ApiClient) -> set[_Kind]:
    """Return the kinds that an API server lists, in the form that Helm reads.

    :raises kubernetes.client.ApiException: when it doesn't answer as asked.
    """
    answer = admin.call_api(
        *("/apis", "GET"),
        header_params={
            "Accept": "application/json;"
            "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        },
        auth_settings=["BearerToken"],
        _preload_content=False,
        _request_timeout=_SECONDS,
    )
    return {
        _Kind(
            group["metadata"]["name"],
            version["version"],
            resource["responseKind"]["kind"],
            resource["resource"],
        )
        for group in json.loads(answer.data)["items"]
        for version in group["versions"]
        for resource in version.get("resources", ())
    }


def _listed(admin: ApiClient, kind: _Kind) -> bool:
    """Return true once an API server lists the objects of a kind.

    The first request for a kind has it make what it keeps the objects in, and
    until it has that, each is answered with 429: "storage is
    (re)initializing".

    :raises kubernetes.client.ApiException: when it doesn't yet.
    """
    admin.call_api(
        *(f"/apis/{kind.group}/{kind.version}/{kind.plural}", "GET"),
        auth_settings=["BearerToken"],
        _preload_content=False,
        _request_timeout=_SECONDS,
    )
    return True


def _open(group: str, version: str, kind: str) -> dict[str, Any]:
    """Return a CRD that takes any object of a kind."""
    plural = kind.lower().removesuffix("s") + "s"
    anything = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "plural": plural,
                "singular": kind.lower(),
                "listKind": f"{kind}List",
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
