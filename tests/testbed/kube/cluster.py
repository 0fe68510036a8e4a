# SPDX-License-Identifier: Apache-2.0

"""One control plane with NFD, from nothing to gone."""

import os
import pathlib
import shutil
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.client import CoreV1Api
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ResourceNotFoundError

from tests.testbed import paths
from tests.testbed.kube.agents import Agents
from tests.testbed.kube.api_server import ApiServer
from tests.testbed.kube.etcd import Etcd
from tests.testbed.kube.host_tree import HostTree
from tests.testbed.kube.nfd import CONFIGURATION
from tests.testbed.kube.nfd import Nfd
from tests.testbed.kube.nodes import Nodes
from tests.testbed.kube.ports import Ports
from tests.testbed.kube.programs import Programs
from tests.testbed.progress import Progress
from tests.testbed.waiting import wait_for


class Kube:
    """A Kubernetes control plane below one state directory.

    :param place: the directories of the harness; this uses kube/ in the
        state directory, and nothing else of it.
    :param address: the IPv4 address that the API server listens on.
    """

    def __init__(self, place: paths.Paths, address: str = "127.0.0.1") -> None:
        self.place = paths.Paths(place.cache, place.state / "kube")
        self.place.make()
        self.programs = Programs.in_cache(place.cache)
        ports = Ports(self.place.run / "ports")
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.place.run),
        }
        self.etcd = Etcd(self.place, ports, environment)
        self.server = ApiServer(
            self.place,
            self.programs,
            ports,
            address,
            self.etcd.url,
            environment,
        )
        self._admin: ApiClient | None = None
        self.agents = Agents(self.place, self.server)
        self.nfd = Nfd(
            self.place, self.programs, ports, self.server, environment
        )

    def prepare(self, progress: Progress) -> None:
        """Install, download and build what is missing.

        :param progress: where to say what goes on.
        :raises errors.TestbedError: when something can't be had.
        """
        self.programs.prepare(self.place.log, progress)

    def start(self) -> None:
        """Start etcd and the API server, with nothing in them.

        :raises errors.TestbedError: when one doesn't come up.
        :raises OSError: when one can't be started.
        """
        self.stop()
        for directory in (self.place.data, self.place.etc):
            shutil.rmtree(directory)
        self.place.make()
        self.server.configure()
        self.etcd.service.start(self.place)
        self.etcd.service.wait(self.place)
        self.start_api_server()

    def stop(self) -> None:
        """Stop all; the logs stay.

        :raises errors.TimedOut: when a process can't be ended.
        """
        self._admin = None
        self.nfd.stop()
        self.stop_api_server()
        self.etcd.service.stop(self.place)

    def start_api_server(self) -> None:
        """Start the API server again, on the same port with the same data.

        :raises errors.TestbedError: when it doesn't come up.
        :raises OSError: when it can't be started.
        """
        self.server.service.start(self.place)
        self.server.service.wait(self.place)

    def stop_api_server(self) -> None:
        """Stop the API server; connections to it are refused then.

        :raises errors.TimedOut: when it can't be ended.
        """
        self.server.resume()
        self.server.service.stop(self.place)

    def expire(self) -> None:
        """Make all resource versions of before too old: 410 Gone.

        The API server answers watches from its memory, whatever etcd has
        forgotten, so it is started anew in between.

        :raises errors.TestbedError: when a part refuses.
        :raises OSError: when a part doesn't answer.
        """
        self.stop_api_server()
        self.etcd.compact()
        self.start_api_server()

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Return the administrator's kubeconfig."""
        return self.server.kubeconfig

    def admin(self) -> ApiClient:
        """Return the client of the administrator, once it was started."""
        if self._admin is None:
            self._admin = self.server.admin()
        return self._admin

    def apply(self, *objects: Any) -> None:
        """Apply objects of any kind, each once its kind is served.

        :param objects: manifests, decoded.
        :raises kubernetes.client.ApiException: when the API server refuses.
        :raises errors.TimedOut: when it serves no such kind.
        """
        cache = str(self.place.data / "kinds.json")
        for each in objects:

            def served(each: Any = each) -> bool:
                kinds = DynamicClient(self.admin(), cache_file=cache).resources
                kinds.invalidate_cache()
                try:
                    kind = kinds.get(
                        api_version=each["apiVersion"], kind=each["kind"]
                    )
                except ResourceNotFoundError:
                    return False
                kind.server_side_apply(
                    each, field_manager="testbed", force_conflicts=True
                )
                return True

            wait_for(f"{each['kind']} is served", served, timeout=30)

    @property
    def core(self) -> CoreV1Api:
        """Return the API of pods and nodes, for the administrator."""
        return CoreV1Api(self.admin())

    @property
    def nodes(self) -> Nodes:
        """Return the Nodes, as the administrator sees them."""
        return Nodes(self.admin())

    def install_nfd(self) -> None:
        """Install NFD and start its master.

        :raises kubernetes.utils.FailToCreateError: when the API server
            refuses.
        """
        admin = self.admin()
        self.nfd.install(admin)
        self.nfd.start_master(admin)

    def start_worker(
        self,
        node: str,
        tree: HostTree,
        interval: float = 1.0,
        configuration: pathlib.Path = CONFIGURATION,
    ) -> None:
        """Start the nfd-worker of a Node.

        :param node: the Node.
        :param tree: the machine that it sees.
        :param interval: seconds between two looks at it, 1 at least.
        :param configuration: its file; operators' by default.
        :raises OSError: when it can't be started.
        """
        self.nfd.start_worker(
            self.admin(), node, tree, interval, configuration
        )

    def tree(self, node: str) -> HostTree:
        """Return a new machine for a Node, without a card.

        :param node: the Node.
        """
        tree = HostTree(self.place.data / "hosts" / node)
        tree.make()
        return tree
