# SPDX-License-Identifier: Apache-2.0

"""Clients whose certificates and tokens run out and are replaced on disk."""

import dataclasses
import pathlib
import shutil

from kubernetes.client import ApiClient
from kubernetes.client import CoreV1Api

from tests.testbed.kube.api_server import ApiServer
from tests.testbed.kube.kubeconfig import Credentials
from tests.testbed.kube.kubeconfig import write

_DAY = 86400.0
#: The files of a service account are swapped as the kubelet swaps those
#: of a pod: they are links into ..data, and ..data moves.
_LINK = "..data"


@dataclasses.dataclass(frozen=True)
class CertificateUser:
    """A user with a client certificate.

    :param server: whose authority signs.
    :param name: Kubernetes' user.
    :param directory: where the files are.
    """

    server: ApiServer
    name: str
    directory: pathlib.Path

    @property
    def credentials(self) -> Credentials:
        """Return the file with the certificate and its key."""
        return Credentials(pem=self.directory / f"{self.name}.pem")

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Return a kubeconfig that names that file."""
        return self.directory / f"{self.name}.kubeconfig"

    def rotate(self, seconds: float = _DAY) -> None:
        """Replace key and certificate at once, in the same file.

        The old one stays good until it ends by itself; the API server
        checks that for each request, on open connections too.

        :param seconds: how long the new certificate is valid.
        :raises errors.CommandFailed: when openssl can't.
        """
        pem = self.credentials.pem
        assert pem is not None
        self.server.authority.issue(pem, self.name, seconds=seconds)
        write(
            self.kubeconfig,
            self.server.url,
            self.server.authority.certificate,
            self.credentials,
        )


@dataclasses.dataclass(frozen=True)
class ServiceAccountUser:
    """A service account, with the files that a pod of it would see.

    :param server: where the account is.
    :param admin: a client that may make tokens.
    :param namespace: the account's namespace.
    :param name: its name.
    :param directory: where the files are: token, ca.crt and namespace.
    """

    server: ApiServer
    admin: ApiClient
    namespace: str
    name: str
    directory: pathlib.Path

    @property
    def credentials(self) -> Credentials:
        """Return the file with the token."""
        return Credentials(token_file=self.directory / "token")

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Return a kubeconfig that names that file."""
        return self.directory / "kubeconfig"

    def rotate(self, seconds: float = _DAY) -> None:
        """Put a new token in the place of the old one, and end that one.

        A token is bound to a Secret of its own. The old one's is deleted;
        the API server may take that token for 10 s more out of its cache.

        :param seconds: how long the new token is valid; 600 at least.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        old = self._generation()
        new = f"{self.name}-{(old or 0) + 1}"
        core = CoreV1Api(self.admin)
        secret = core.create_namespaced_secret(
            self.namespace, {"metadata": {"name": new}}
        )
        bound = {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": new,
            "uid": secret.metadata.uid,
        }
        asked = {"expirationSeconds": int(seconds), "boundObjectRef": bound}
        made = core.create_namespaced_service_account_token(
            self.name, self.namespace, {"spec": asked}
        )
        self._publish((old or 0) + 1, made.status.token)
        if old is not None:
            core.delete_namespaced_secret(f"{self.name}-{old}", self.namespace)

    def _generation(self) -> int | None:
        link = self.directory / _LINK
        if not link.is_symlink():
            return None
        return int(link.readlink().name.removeprefix(".."))

    def _publish(self, generation: int, token: str) -> None:
        content = self.directory / f"..{generation}"
        content.mkdir(parents=True)
        (content / "token").write_text(token)
        (content / "token").chmod(0o600)
        (content / "namespace").write_text(self.namespace)
        shutil.copy(self.server.authority.certificate, content / "ca.crt")
        draft = self.directory / "..data.new"
        draft.symlink_to(content.name)
        draft.replace(self.directory / _LINK)
        for name in ("token", "namespace", "ca.crt"):
            link = self.directory / name
            if not link.is_symlink():
                link.symlink_to(pathlib.Path(_LINK, name))
        write(
            self.kubeconfig,
            self.server.url,
            self.directory / "ca.crt",
            self.credentials,
        )
        old = self.directory / f"..{generation - 1}"
        if old.exists():
            shutil.rmtree(old)
