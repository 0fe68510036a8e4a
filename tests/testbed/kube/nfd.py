# SPDX-License-Identifier: Apache-2.0

"""nfd-master and nfd-workers, as a cluster's operator deploys them."""

import functools
import json
import pathlib

from kubernetes import utils
from kubernetes.client import ApiClient
from kubernetes.client import ApiextensionsV1Api

from tests.testbed import paths
from tests.testbed.kube.api_server import ApiServer
from tests.testbed.kube.host_tree import HostTree
from tests.testbed.kube.identities import ServiceAccountUser
from tests.testbed.kube.nodes import Nodes
from tests.testbed.kube.ports import Ports
from tests.testbed.kube.programs import Programs
from tests.testbed.service import Service
from tests.testbed.waiting import wait_for

#: The Node that nfd-master believes to run on; it cleans labels there.
MASTER_NODE = "nfd-master"
#: What NFD's own manifests say.
NAMESPACE = "default"
#: The worker's configuration as operators get it.
CONFIGURATION = paths.CHECKOUT / "etc" / "kubernetes" / "nfd-worker.conf"
#: Both programs end when the API server is away, and the kubelet starts
#: them again; so does this.
_RESTART = 'while :; do "$@"; sleep 1; done'


class Nfd:
    """NFD on one control plane.

    Its programs serve health and metrics on all addresses of the machine;
    they can't be told another.

    :param place: the directories of the control plane.
    :param programs: what was built.
    :param ports: its ports.
    :param server: its API server.
    :param environment: what the programs run with.
    """

    def __init__(
        self,
        place: paths.Paths,
        programs: Programs,
        ports: Ports,
        server: ApiServer,
        environment: dict[str, str],
    ) -> None:
        self._place = place
        self._programs = programs
        self._ports = ports
        self._server = server
        self._environment = environment

    def install(self, admin: ApiClient) -> None:
        """Apply NFD's CRDs and RBAC; make the tokens and master's Node.

        :param admin: a client that may do all.
        :raises kubernetes.utils.FailToCreateError: when the API server
            refuses.
        :raises errors.TimedOut: when it serves none of them.
        """
        source = self._programs.nfd_manifests
        crds = source / "nfd-crds" / "nfd-api-crds.yaml"
        rbac = sorted((source / "rbac").glob("*.yaml"))
        for path in (crds, *rbac):
            if path.name != "kustomization.yaml":
                utils.create_from_yaml(admin, str(path), namespace=NAMESPACE)
        wait_for(
            "NFD's objects are served",
            functools.partial(_established, admin),
            timeout=30,
            interval=0.05,
        )
        for name in ("nfd-master", "nfd-worker"):
            self._account(admin, name).rotate()
        Nodes(admin).create(MASTER_NODE)

    def start_master(self, admin: ApiClient) -> None:
        """Start nfd-master, unless it runs.

        :param admin: a client that may do all.
        :raises OSError: when it can't be started.
        """
        command = (
            "env",
            f"NODE_NAME={MASTER_NODE}",
            str(self._programs.nfd_master),
            f"-kubeconfig={self._account(admin, 'nfd-master').kubeconfig}",
            # There isn't one, and its default is a path of the machine.
            "-config=/nonexistent/nfd-master.conf",
            f"-port={self._ports.of('nfd-master')}",
        )
        self._service("nfd-master", command).start(self._place)

    def start_worker(
        self,
        admin: ApiClient,
        node: str,
        tree: HostTree,
        interval: float,
        configuration: pathlib.Path = CONFIGURATION,
    ) -> None:
        """Start the nfd-worker of a Node, unless it runs.

        :param admin: a client that may do all.
        :param node: the Node, whose object need not exist yet.
        :param tree: the machine that the worker sees.
        :param interval: seconds between two looks at it, 1 at least; it
            takes the place of the file's sleepInterval.
        :param configuration: its file; operators' by default.
        :raises OSError: when it can't be started.
        """
        options = {
            "core": {"sleepInterval": f"{interval}s"},
            # Else the worker would read the machine's /proc/config.gz.
            "sources": {"kernel": {"kconfigFile": str(tree.kernel_config)}},
        }
        name = worker_name(node)
        command = (
            "env",
            f"--chdir={tree.root}",
            f"NODE_NAME={node}",
            str(self._programs.nfd_worker),
            f"-kubeconfig={self._account(admin, 'nfd-worker').kubeconfig}",
            f"-config={configuration}",
            f"-options={json.dumps(options)}",
            f"-port={self._ports.of(name)}",
        )
        self._service(name, command).start(self._place)

    def stop_worker(self, node: str) -> None:
        """Stop the nfd-worker of a Node.

        :param node: the Node.
        :raises errors.TimedOut: when it can't be ended.
        """
        self._service(worker_name(node), ()).stop(self._place)

    def stop(self) -> None:
        """Stop nfd-master and all workers.

        :raises errors.TimedOut: when one can't be ended.
        """
        for record in self._place.run.glob("nfd-*.json"):
            self._service(record.stem, ()).stop(self._place)

    def _service(self, name: str, command: tuple[str, ...]) -> Service:
        return Service(
            name=name,
            command=("sh", "-c", _RESTART, "sh", *command),
            environment={
                **self._environment,
                "KUBERNETES_NAMESPACE": NAMESPACE,
            },
        )

    def _account(self, admin: ApiClient, name: str) -> ServiceAccountUser:
        return ServiceAccountUser(
            self._server,
            admin,
            NAMESPACE,
            name,
            pathlib.Path(self._place.etc, name),
        )


def worker_name(node: str) -> str:
    """Return the name of a Node's worker; its log is NAME.out.

    :param node: the Node.
    """
    return f"nfd-worker-{node}"


def _established(admin: ApiClient) -> bool:
    found = ApiextensionsV1Api(admin).list_custom_resource_definition()
    return all(
        any(
            condition.type == "Established" and condition.status == "True"
            # None, until the API server has looked at what was created.
            for condition in definition.status.conditions or ()
        )
        for definition in found.items
    )
