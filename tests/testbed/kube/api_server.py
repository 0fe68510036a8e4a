# SPDX-License-Identifier: Apache-2.0

"""kube-apiserver: as a service, and as something that hangs."""

import pathlib
import signal

from kubernetes import config
from kubernetes.client import ApiClient
from kubernetes.client import ApiException
from kubernetes.client import Configuration
from urllib3.exceptions import HTTPError

from tests.testbed import paths
from tests.testbed.kube.authority import Authority
from tests.testbed.kube.kubeconfig import Credentials
from tests.testbed.kube.kubeconfig import write
from tests.testbed.kube.ports import Ports
from tests.testbed.kube.programs import Programs
from tests.testbed.process import Record
from tests.testbed.service import Service
from tests.testbed.service import running
from tests.testbed.waiting import wait_for

_NAME = "kube-apiserver"
_YEAR = 365 * 86400.0
_SECONDS = 30.0


class ApiServer:
    """The API server of one control plane.

    :param place: the directories of the control plane.
    :param programs: what was built.
    :param ports: its ports.
    :param address: the IPv4 address that it listens on.
    :param etcd: the URL of its etcd.
    :param environment: what it runs with.
    """

    def __init__(
        self,
        place: paths.Paths,
        programs: Programs,
        ports: Ports,
        address: str,
        etcd: str,
        environment: dict[str, str],
    ) -> None:
        self._place = place
        self._programs = programs
        self._etcd = etcd
        self._environment = environment
        self.address = address
        self.port = ports.of("api")
        self.authority = Authority(place.etc / "authority")

    @property
    def url(self) -> str:
        """Return where clients connect to."""
        return f"https://{self.address}:{self.port}"

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Return the administrator's kubeconfig."""
        return self._place.etc / "admin.kubeconfig"

    @property
    def service(self) -> Service:
        """Return the process."""
        etc = self._place.etc
        return Service(
            name=_NAME,
            command=(
                str(self._programs.api_server),
                f"--etcd-servers={self._etcd}",
                f"--bind-address={self.address}",
                f"--secure-port={self.port}",
                # What it would tell pods; it may not be loopback, and
                # there are none.
                "--advertise-address=192.0.2.1",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.96.0.0/16",
                f"--tls-cert-file={etc / 'server.pem'}",
                f"--tls-private-key-file={etc / 'server.pem'}",
                f"--client-ca-file={self.authority.certificate}",
                "--service-account-issuer=https://testbed.invalid",
                f"--service-account-key-file={etc / 'tokens.pem'}",
                f"--service-account-signing-key-file={etc / 'tokens.pem'}",
                "--authorization-mode=Node,RBAC",
                # By which kubeadm signs in for a node that joins.
                "--enable-bootstrap-token-auth=true",
                # History goes when a test says so.
                "--etcd-compaction-interval=0",
                "--profiling=false",
                # Off by default until Kubernetes 1.36.
                "--feature-gates=MutatingAdmissionPolicy=true",
                "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
                # A node's plug-ins, such as Multus, are privileged.
                "--allow-privileged=true",
            ),
            environment=self._environment,
            ready=self._ready,
            # It would wait a minute for its watchers to go.
            grace_seconds=2.0,
        )

    def configure(self) -> None:
        """Write its keys, its certificates and the administrator's.

        :raises errors.CommandFailed: when openssl can't.
        """
        self.authority.make()
        etc = self._place.etc
        self.authority.issue(
            etc / "server.pem",
            "kube-apiserver",
            alternatives=(
                "DNS:localhost",
                "DNS:kubernetes.default.svc",
                "IP:127.0.0.1",
                f"IP:{self.address}",
            ),
            seconds=_YEAR,
        )
        self.authority.issue(
            etc / "admin.pem",
            "admin",
            organization="system:masters",
            seconds=_YEAR,
        )
        # The public key of a pair is taken out of its certificate.
        self.authority.issue(etc / "tokens.pem", "tokens", seconds=_YEAR)
        write(
            self.kubeconfig,
            self.url,
            self.authority.certificate,
            Credentials(pem=etc / "admin.pem"),
        )

    def admin(self) -> ApiClient:
        """Return a client of the administrator."""
        return self.client(self.kubeconfig)

    def client(self, kubeconfig: pathlib.Path) -> ApiClient:
        """Return a client of somebody, as of now.

        :param kubeconfig: names files; one with a token is read once.
        """
        configuration = Configuration()
        # A proxy of the machine can't reach it.
        configuration.proxy = None
        # Whoever waits for it asks again.
        configuration.retries = False
        return config.new_client_from_config(
            str(kubeconfig),
            persist_config=False,
            client_configuration=configuration,
        )

    def hang(self) -> None:
        """Let it answer no more, with its connections open.

        SIGSTOP stops each thread when that is next scheduled: on a busy
        machine some answer for up to a second after it was sent.

        :raises errors.TimedOut: when it isn't stopped in time.
        """
        record = Record.load(self._place.run / f"{_NAME}.json")
        record.identity.signal(signal.SIGSTOP)
        wait_for(
            f"{_NAME} is stopped",
            lambda: record.identity.stopped,
            timeout=30,
            interval=0.01,
        )

    def resume(self) -> None:
        """Let it go on after hang(); nothing when it doesn't run."""
        if running(_NAME, self._place):
            record = Record.load(self._place.run / f"{_NAME}.json")
            record.identity.signal(signal.SIGCONT)

    def _ready(self) -> bool:
        try:
            self.admin().call_api(
                *("/readyz", "GET"),
                _preload_content=False,
                _request_timeout=_SECONDS,
            )
        except (ApiException, HTTPError):
            return False
        return True
