# SPDX-License-Identifier: Apache-2.0

"""What operators give to the agents: rbac.yaml, and who they are."""

import yaml
from kubernetes.client import RbacAuthorizationV1Api
from kubernetes.dynamic import DynamicClient

from tests.testbed import paths
from tests.testbed.kube.api_server import ApiServer
from tests.testbed.kube.identities import CertificateUser
from tests.testbed.kube.identities import ServiceAccountUser

_DAY = 86400.0
_RBAC = paths.CHECKOUT / "etc" / "kubernetes" / "rbac.yaml"
#: The Node that rbac.yaml is written for.
_EXAMPLE = "compute-1"
#: The namespace of the agents' service accounts there.
_NAMESPACE = "sriov-rt"


class Agents:
    """The agents of a control plane, one a Node.

    :param place: the directories of the control plane.
    :param server: its API server.
    """

    def __init__(self, place: paths.Paths, server: ApiServer) -> None:
        self._place = place
        self._server = server

    def grant(self, node: str) -> None:
        """Let an agent read its Node, as rbac.yaml lets it.

        :param node: the Node.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        kinds = DynamicClient(
            self._server.admin(),
            # By default a file in the machine's /tmp.
            cache_file=str(self._place.data / "kinds.json"),
        ).resources
        for each in yaml.safe_load_all(rbac(node)):
            kind = kinds.get(api_version=each["apiVersion"], kind=each["kind"])
            kind.server_side_apply(each, field_manager="testbed")

    def withdraw(self, node: str) -> None:
        """Take from an agent what grant() gave it; who it is stays.

        :param node: the Node.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        api = RbacAuthorizationV1Api(self._server.admin())
        for each in yaml.safe_load_all(rbac(node)):
            if each["kind"] == "ClusterRoleBinding":
                api.delete_cluster_role_binding(each["metadata"]["name"])

    def with_certificate(
        self, node: str, seconds: float = _DAY
    ) -> CertificateUser:
        """Return an agent with a new client certificate.

        :param node: the Node.
        :param seconds: how long the certificate is valid.
        :raises errors.CommandFailed: when openssl can't.
        """
        name = agent_name(node)
        user = CertificateUser(self._server, name, self._place.etc / name)
        user.rotate(seconds)
        return user

    def with_token(
        self, node: str, seconds: float = _DAY
    ) -> ServiceAccountUser:
        """Return an agent with a new token; after grant().

        :param node: the Node.
        :param seconds: how long the token is valid; 600 at least.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        name = agent_name(node)
        user = ServiceAccountUser(
            self._server,
            self._server.admin(),
            _NAMESPACE,
            name,
            self._place.etc / f"{name}-account",
        )
        user.rotate(seconds)
        return user


def agent_name(node: str) -> str:
    """Return Kubernetes' user and service account of a Node's agent.

    :param node: the Node.
    """
    return f"sriov-rt-agent-{node}"


def rbac(node: str) -> str:
    """Return etc/kubernetes/rbac.yaml for a Node, made as its text says.

    :param node: the Node.
    """
    return _RBAC.read_text().replace(_EXAMPLE, node)
