# SPDX-License-Identifier: Apache-2.0

"""Cluster API's OpenStack provider and control plane, played on a real cloud.

The provider is published as an image and not as a Go module. What it does of
its contract is done here: a server in Nova for each OpenStackMachine, of the
machine's flavor, ports and user data, and its end. A KubeadmControlPlane has
no machines and is ready at once; the cluster that it would make is an API
server that runs already. A server's kubelet is played too: its Node appears,
with the labels and taints of the user data, as soon as the server is ACTIVE.
"""

import base64
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import yaml
from kubernetes.client import ApiClient
from kubernetes.client import ApiException
from kubernetes.dynamic import DynamicClient
from openstack.connection import Connection

#: What Nova knows the servers by.
PREFIX = "capo-"

_INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1beta1"
_BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta1"
_CONTROL_PLANE = "controlplane.cluster.x-k8s.io/v1beta1"
_FINALIZER = "openstackmachine.infrastructure.cluster.x-k8s.io"
_NOT_FOUND = 404

_TIME = "2026-01-01T00:00:00Z"

Object = dict[str, Any]


class Provider:
    """The controllers that are played.

    :param management: client of the management cluster.
    :param api: the cloud.
    :param workload: client of the cluster that is built.
    :param kubeconfig: of that cluster, its text.
    :param network: name of the network of a machine's ordinary port.
    """

    def __init__(
        self,
        management: ApiClient,
        api: Connection,
        workload: ApiClient,
        kubeconfig: str,
        network: str,
    ) -> None:
        self._management = DynamicClient(management)
        self._workload = DynamicClient(workload)
        self._api = api
        self._kubeconfig = kubeconfig
        self._network = network

    def reconcile(self) -> None:
        """Do what is to be done now, without waiting for anything."""
        for each in self._list(_INFRASTRUCTURE, "OpenStackCluster"):
            self._cluster(each)
        for each in self._list(_CONTROL_PLANE, "KubeadmControlPlane"):
            self._control_plane(each)
        for each in self._list("addons.stackhpc.com/v1alpha1", "Manifests"):
            self._status(each, phase="Deployed")
        for each in self._list(_INFRASTRUCTURE, "OpenStackMachine"):
            if each["metadata"].get("deletionTimestamp"):
                self._delete(each)
            elif _owner(each) is not None:
                self._machine(each)

    def servers(self) -> Mapping[str, Any]:
        """Return the servers in Nova, by the names of their machines."""
        found = self._api.compute.servers(name=f"^{PREFIX}")
        return {each.name.removeprefix(PREFIX): each for each in found}

    def ports(self) -> list[Any]:
        """Return the machines' ports in Neutron."""
        return [
            each
            for each in self._api.network.ports()
            if each.name.startswith(PREFIX)
        ]

    def _cluster(self, found: Object) -> None:
        name, namespace = _name(found), found["metadata"]["namespace"]
        endpoint = {"host": "192.0.2.1", "port": 6443}
        if found["spec"].get("controlPlaneEndpoint") != endpoint:
            self._merge(found, {"spec": {"controlPlaneEndpoint": endpoint}})
            self._apply(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {
                        "name": f"{name}-kubeconfig",
                        "namespace": namespace,
                        "labels": {"cluster.x-k8s.io/cluster-name": name},
                    },
                    "type": "cluster.x-k8s.io/secret",
                    "stringData": {"value": self._kubeconfig},
                }
            )
        self._status(found, ready=True)

    def _control_plane(self, found: Object) -> None:
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": _TIME}
            for each in (
                "Ready",
                "Available",
                "MachinesReady",
                "CertificatesAvailable",
                "EtcdClusterHealthy",
                "ControlPlaneComponentsHealthy",
            )
        ]
        self._status(
            found,
            initialized=True,
            ready=True,
            version=found["spec"]["version"],
            replicas=1,
            updatedReplicas=1,
            readyReplicas=1,
            conditions=conditions,
        )

    def _machine(self, found: Object) -> None:
        name = _name(found)
        if _FINALIZER not in found["metadata"].get("finalizers", ()):
            self._merge(found, {"metadata": {"finalizers": [_FINALIZER]}})
        server = self._api.compute.find_server(PREFIX + name)
        if server is None:
            user_data = self._user_data(found)
            if user_data is not None:
                self._boot(found, user_data)
            return
        server = self._api.compute.get_server(server.id)
        if server.status == "ERROR":
            fault = (server.fault or {}).get("message", "")
            self._status(
                found, failureReason="CreateError", failureMessage=fault
            )
        if server.status != "ACTIVE" or found.get("status", {}).get("ready"):
            return
        identity = f"openstack:///{server.id}"
        self._merge(found, {"spec": {"providerID": identity}})
        addresses = [
            {"type": "InternalIP", "address": each["addr"]}
            for every in server.addresses.values()
            for each in every
        ]
        self._status(found, ready=True, addresses=addresses)
        self._join(found, identity)

    def _user_data(self, machine: Object) -> str | None:
        """Return the user data of a machine, once it was made."""
        owner = _owner(machine)
        assert owner is not None
        namespace = machine["metadata"]["namespace"]
        found = self._get(
            "cluster.x-k8s.io/v1beta1", "Machine", owner, namespace
        )
        name = (found or {}).get("spec", {}).get("bootstrap", {})
        secret = name.get("dataSecretName")
        if secret is None:
            return None
        data = self._get("v1", "Secret", secret, namespace)
        return None if data is None else str(data["data"]["value"])

    def _boot(self, machine: Object, user_data: str) -> None:
        spec = machine["spec"]
        flavor = self._api.compute.find_flavor(
            spec["flavor"], ignore_missing=False
        )
        networks = [
            {"port": self._port(_name(machine), each)}
            for each in spec.get("ports") or [{}]
        ]
        self._api.compute.create_server(
            name=PREFIX + _name(machine),
            flavor_id=flavor.id,
            image_id=spec["image"]["id"],
            networks=networks,
            config_drive=bool(spec.get("configDrive")),
            user_data=user_data,
        )

    def _port(self, name: str, wanted: Object) -> str:
        network = (wanted.get("network") or {}).get("id")
        if network is None:
            network = self._api.network.find_network(
                self._network, ignore_missing=False
            ).id
        made = self._api.network.create_port(
            name=PREFIX + name,
            network_id=network,
            binding_vnic_type=wanted.get("vnicType", "normal"),
            **self._security(wanted),
        )
        return str(made.id)

    def _security(self, wanted: Object) -> Object:
        """Return how a port is secured, as the provider creates it.

        A port that names no security groups, or an empty list of them, has
        those that the chart manages for the cluster; the project's default
        group is in their place. Without port security it has none
        (controllers/openstackmachine_controller.go of the provider, 0.14;
        earlier releases refuse such a port).
        """
        found: Object = {}
        if wanted.get("disablePortSecurity"):
            found["is_port_security_enabled"] = False
        else:
            groups = [
                each["id"] for each in wanted.get("securityGroups") or ()
            ]
            found["security_group_ids"] = groups or [self._default_group()]
        if (wanted.get("profile") or {}).get("trustedVF"):
            found["binding_profile"] = {"trusted": True}
        return found

    def _default_group(self) -> str:
        group = self._api.network.find_security_group(
            "default",
            ignore_missing=False,
            project_id=self._api.current_project_id,
        )
        return str(group.id)

    def _delete(self, machine: Object) -> None:
        name = PREFIX + _name(machine)
        server = self._api.compute.find_server(name)
        if server is not None:
            self._api.compute.delete_server(server)
            return
        for port in self._api.network.ports(name=name):
            self._api.network.delete_port(port)
        self._merge(machine, {"metadata": {"finalizers": []}})

    def _join(self, machine: Object, identity: str) -> None:
        """Play the kubelet, by the configuration of kubeadm in user data."""
        text = base64.b64decode(self._user_data(machine) or "").decode()
        files = yaml.safe_load(text)["write_files"]
        (config,) = (
            each["content"]
            for each in files
            if each["path"].endswith("kubeadm-join-config.yaml")
        )
        registration = yaml.safe_load(config)["nodeRegistration"]
        arguments = registration["kubeletExtraArgs"]
        if not isinstance(arguments, dict):
            arguments = {each["name"]: each["value"] for each in arguments}
        labels = dict(
            each.split("=", 1)
            for each in arguments.get("node-labels", "").split(",")
            if each
        )
        self._nodes().create(
            body={
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": _name(machine), "labels": labels},
                "spec": {
                    "providerID": identity,
                    "taints": registration.get("taints") or [],
                },
            }
        )
        ready = {"type": "Ready", "status": "True", "reason": "Played"}
        self._nodes().status.patch(
            name=_name(machine),
            body={"status": {"conditions": [ready]}},
            content_type="application/merge-patch+json",
        )

    def _nodes(self) -> Any:
        return self._workload.resources.get(api_version="v1", kind="Node")

    def nodes(self) -> Mapping[str, Object]:
        """Return the Nodes of the cluster that is built, by name."""
        found = self._nodes().get().to_dict()["items"]
        return {_name(each): each for each in found}

    def _kind(self, version: str, kind: str) -> Any:
        return self._management.resources.get(api_version=version, kind=kind)

    def _list(self, version: str, kind: str) -> Iterator[Object]:
        found = self._kind(version, kind).get().to_dict()
        for each in found["items"]:
            yield {"apiVersion": version, "kind": kind, **each}

    def _get(
        self, version: str, kind: str, name: str, namespace: str
    ) -> Object | None:
        try:
            found = self._kind(version, kind).get(
                name=name, namespace=namespace
            )
        except ApiException as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return dict(found.to_dict())

    def _apply(self, document: Object) -> None:
        kind = self._kind(document["apiVersion"], document["kind"])
        kind.server_side_apply(document, field_manager="provider")

    def _merge(self, found: Object, change: Object, part: str = "") -> None:
        kind = self._kind(found["apiVersion"], found["kind"])
        try:
            (getattr(kind, part) if part else kind).patch(
                name=_name(found),
                namespace=found["metadata"]["namespace"],
                body=change,
                content_type="application/merge-patch+json",
            )
        except ApiException as error:
            # Deleted since it was listed.
            if error.status != _NOT_FOUND:
                raise

    def _status(self, found: Object, **status: Any) -> None:
        before = found.get("status") or {}
        if any(before.get(key) != value for key, value in status.items()):
            self._merge(found, {"status": status}, "status")


def _name(found: Mapping[str, Any]) -> str:
    return str(found["metadata"]["name"])


def _owner(machine: Mapping[str, Any]) -> str | None:
    """Return the Machine of an OpenStackMachine, once Cluster API set it."""
    for each in machine["metadata"].get("ownerReferences") or ():
        if each["kind"] == "Machine":
            return str(each["name"])
    return None
