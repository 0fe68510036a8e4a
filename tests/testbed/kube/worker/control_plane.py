# SPDX-License-Identifier: Apache-2.0

"""What makes an API server a cluster that kubeadm's nodes join.

kube-controller-manager signs their certificates, kube-scheduler places pods,
and kubeadm itself has written what a node reads before it joins.
"""

import hashlib
import json
import secrets
import ssl

from tests.testbed.kube import programs
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.node_programs import NodePrograms
from tests.testbed.service import Service
from tests.testbed.waiting import run
from tests.testbed.waiting import wait_for

_SECONDS = 120.0

#: The kubelet's configuration of a cluster, which our arguments are added to.
_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
    },
    "authorization": {"mode": "Webhook"},
    "cgroupDriver": "systemd",
    "rotateCertificates": True,
    # It has no name server.
    "resolvConf": "",
    "staticPodPath": "/etc/kubernetes/manifests",
}


class ControlPlane:
    """A control plane that nodes join.

    :param kube: its etcd and API server, which run.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._place = kube.place
        self._programs = NodePrograms(kube.place.cache)
        self.token = f"{secrets.token_hex(3)}.{secrets.token_hex(8)}"

    def start(self) -> None:
        """Start the controllers and the scheduler; let nodes join.

        :raises errors.TestbedError: when a part doesn't come up.
        """
        for each in self._services():
            each.start(self._place)
        self._let_join()
        wait_for(
            "the cluster's information is signed", self._signed, timeout=60
        )

    def stop(self) -> None:
        """Stop controllers and scheduler."""
        for each in self._services():
            each.stop(self._place)

    @property
    def discovery(self) -> dict[str, object]:
        """How a node finds the cluster, as a JoinConfiguration has it."""
        return {
            "bootstrapToken": {
                "token": self.token,
                "apiServerEndpoint": self._endpoint,
                "caCertHashes": [f"sha256:{self._authority_hash()}"],
            }
        }

    @property
    def _endpoint(self) -> str:
        return self._kube.server.url.removeprefix("https://")

    def _authority_hash(self) -> str:
        """Return the digest of the authority's public key, as kubeadm's."""
        pem = run(
            (
                *("openssl", "x509", "-pubkey", "-noout", "-in"),
                str(self._kube.server.authority.certificate),
            ),
            timeout=_SECONDS,
        )
        body = "".join(pem.strip().splitlines()[1:-1])
        begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        der = ssl.PEM_cert_to_DER_cert(f"{begin}\n{body}\n{end}\n")
        return hashlib.sha256(der).hexdigest()

    def _services(self) -> tuple[Service, ...]:
        authority = self._kube.server.authority
        etc = self._place.etc
        return (
            self._service(
                "kube-controller-manager",
                # Those two are off by default.
                "--controllers=*,bootstrap-signer-controller,"
                "token-cleaner-controller",
                f"--cluster-signing-cert-file={authority.certificate}",
                f"--cluster-signing-key-file={authority.directory / 'ca.key'}",
                f"--root-ca-file={authority.certificate}",
                f"--service-account-private-key-file={etc / 'tokens.pem'}",
            ),
            self._service("kube-scheduler"),
        )

    def _service(self, name: str, *arguments: str) -> Service:
        return Service(
            name=name,
            command=(
                str(self._programs.program(name)),
                f"--kubeconfig={self._kube.kubeconfig}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                *arguments,
            ),
            environment={"HOME": str(self._place.run)},
        )

    def _let_join(self) -> None:
        release = programs.version("k8s.io/kubernetes")
        initial = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "bootstrapTokens": [{"token": self.token}],
            "localAPIEndpoint": {
                "advertiseAddress": self._kube.server.address,
                "bindPort": self._kube.server.port,
            },
        }
        cluster = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "kubernetesVersion": release,
            "controlPlaneEndpoint": self._endpoint,
        }
        file = self._place.etc / "kubeadm.yaml"
        file.write_text("\n---\n".join(map(json.dumps, (initial, cluster))))
        for phase in (("upload-config", "kubeadm"), ("bootstrap-token",)):
            run(
                (
                    str(self._programs.program("kubeadm")),
                    *("init", "phase", *phase, f"--config={file}"),
                    f"--kubeconfig={self._kube.kubeconfig}",
                ),
                timeout=_SECONDS,
            )
        # kubeadm's own phase wants a node of the control plane.
        name = "kubelet-config"
        metadata = {"name": name, "namespace": "kube-system"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role"}
        group = {"apiGroup": role["apiGroup"], "kind": "Group"}
        self._kube.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"kubelet": json.dumps(_KUBELET)},
            },
            {
                "apiVersion": f"{role['apiGroup']}/v1",
                "kind": "Role",
                "metadata": metadata,
                "rules": [
                    {
                        "apiGroups": [""],
                        "resources": ["configmaps"],
                        "resourceNames": [name],
                        "verbs": ["get"],
                    }
                ],
            },
            {
                "apiVersion": f"{role['apiGroup']}/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {**role, "name": name},
                "subjects": [
                    {**group, "name": each}
                    for each in (
                        "system:nodes",
                        "system:bootstrappers:kubeadm:default-node-token",
                    )
                ],
            },
        )

    def _signed(self) -> bool:
        """Return whether a node that has the token can trust the cluster."""
        found = self._kube.core.read_namespaced_config_map(
            "cluster-info", "kube-public"
        )
        return f"jws-kubeconfig-{self.token.split('.')[0]}" in found.data

    def nodes(self) -> str:
        """Return the table that ``kubectl get node -o wide`` prints."""
        kind = "application/json;as=Table;v=v1;g=meta.k8s.io"
        answer = self._kube.admin().call_api(
            *("/api/v1/nodes", "GET"),
            header_params={"Accept": kind},
            _preload_content=False,
            _request_timeout=_SECONDS,
        )
        table = json.loads(answer.data)
        rows = [
            [each["name"].upper() for each in table["columnDefinitions"]],
            *([str(cell) for cell in each["cells"]] for each in table["rows"]),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "   ".join(
                cell.ljust(width)
                for cell, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in rows
        )
