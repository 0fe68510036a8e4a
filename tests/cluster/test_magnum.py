# SPDX-License-Identifier: Apache-2.0

"""A Kubernetes cluster from Magnum, whose servers our filter schedules.

Keystone, Nova, Neutron, Placement, Glance, magnum-api, magnum-conductor, Helm,
Cluster API's core and kubeadm controllers and both API servers are real. The
chart is a small one with capi-helm's value names, and openstack_provider plays
the OpenStack provider, the control plane and the kubelets.
"""

import pathlib
import shlex
import tempfile
import time
from collections.abc import Callable
from typing import Any
from typing import ClassVar

from tests.cloud.base import REALTIME
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.testbed import errors
from tests.testbed import magnum
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed import seed
from tests.testbed import settings
from tests.testbed.kube import cluster_api
from tests.testbed.kube import cluster_api_programs
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.openstack_provider import Provider
from tests.testbed.progress import Progress
from tests.testbed.services import RT
from tests.testbed.waiting import run
from tests.testbed.waiting import wait_for

#: On rt-1 alone, since no other host has such a card. Its ports are ours.
FAST = {"sriov_rt:nic": "intel", "sriov_rt:vif": "macvlan"}
#: One vCPU for the kubelet and the like, one for realtime pods.
FAST_REALTIME = {
    **REALTIME,
    "hw:cpu_realtime_mask": "^0",
    "sriov_rt:vif": "vf",
}
#: No host of the cloud has such a card.
HOPELESS = {"sriov_rt:nic": "solarflare"}

#: Seconds for an operation, of which the periodic task sees the end.
OPERATION_SECONDS = 1200.0

#: The network of the cluster, where no port is fast.
NETWORK = "kube"

#: Nobody signs in to these servers.
PUBLIC_KEY = (
    "ssh-ed25519 "
    "AAAAC3NzaC1lZDI1NTE5AAAAIHTazDpvBU6nMIMN"
    "Wj1kVFNaPzB7BCHrF50hFw1U1PLE"
)

#: Of a list of nodegroups.
COLUMNS = ("-c", "name", "-c", "flavor_id", "-c", "status")

TRANSCRIPT = "magnum-transcript.log"


class TestCluster(CloudTestCase):
    """One cluster, from its creation to its end."""

    logs: ClassVar[tuple[str, ...]] = (
        f"{magnum.CONDUCTOR}.log",
        f"{magnum.API}.log",
        "nova-scheduler.log",
    )
    magnum: ClassVar[magnum.Magnum]
    provider: ClassVar[Provider]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the management cluster, the one to build, and Magnum."""
        super().setUpClass()
        place, api = cls.cloud.place, cls.cloud.api
        began = time.monotonic()
        management = cls.control_plane("management")
        workload = cls.control_plane("workload")
        cluster_api.install_crds(management.admin(), management.place)
        found = cluster_api_programs.controllers(place, Progress())
        controllers = cluster_api.Controllers(management, found)
        cls.addClassCleanup(controllers.stop)
        controllers.start()
        cls.provider = Provider(
            management.admin(),
            api,
            workload.admin(),
            workload.kubeconfig.read_text(),
            NETWORK,
        )
        cls.magnum = magnum.Magnum(place, management.kubeconfig)
        cls.magnum.configure(api)
        cls.addClassCleanup(cls.magnum.stop)
        cls.magnum.start()
        cls.make_networks()
        cls.make_image()
        key = api.compute.create_keypair(name=NETWORK, public_key=PUBLIC_KEY)
        cls.addClassCleanup(api.compute.delete_keypair, key)
        say(f"Magnum serves after {time.monotonic() - began:.1f} s")

    @classmethod
    def control_plane(cls, name: str) -> Kube:
        """Start an API server with a state directory of its own."""
        place = cls.cloud.place
        kube = Kube(paths.Paths(place.cache, place.state / name))
        if not kube.programs.built:
            raise errors.TestbedError(
                "there is no network to build Kubernetes from in here; run "
                "`python3 -m tests.testbed.magnum` outside first"
            )
        cls.addClassCleanup(kube.stop)
        kube.start()
        return kube

    @classmethod
    def make_networks(cls) -> None:
        """Make the cluster's own network, and an external one."""
        network = cls.cloud.api.network
        for name, address in ((NETWORK, "10.88.0"), ("public", "10.89.0")):
            made = network.create_network(
                name=name, is_router_external=name == "public"
            )
            cls.addClassCleanup(network.delete_network, made)
            network.create_subnet(
                name=name,
                network_id=made.id,
                ip_version=4,
                cidr=f"{address}.0/24",
            )

    @classmethod
    def make_image(cls) -> None:
        """Make the guest's image one that Magnum takes."""
        image = cls.cloud.api.image
        guest = image.find_image(seed.IMAGE, ignore_missing=False)
        names = ("kernel_id", "ramdisk_id", "hw_machine_type")
        properties = {
            **{each: getattr(guest, each) for each in names},
            "os_command_line": guest.os_command_line,
            "os_distro": "ubuntu",
            "kube_version": "v1.34.4",
        }
        with tempfile.TemporaryDirectory() as scratch:
            file = pathlib.Path(scratch) / "image.raw"
            file.write_bytes(image.download_image(guest).content)
            made = seed.raw_image(cls.cloud.api, NETWORK, file, properties)
        cls.addClassCleanup(image.delete_image, made)

    def setUp(self) -> None:
        """Make the flavors, under names that a person reads."""
        super().setUp()
        self.transcript = self.cloud.place.log / TRANSCRIPT
        self.transcript.unlink(missing_ok=True)
        for name, vcpus, specs in (
            ("fast.small", 1, FAST),
            ("rt.node", 2, FAST_REALTIME),
            ("solarflare.node", 1, HOPELESS),
            ("master.small", 1, {}),
        ):
            made = self.cloud.create_flavor(name, specs, vcpus=vcpus)
            self.addCleanup(self.cloud.api.compute.delete_flavor, made)

    def test_a_cluster_from_its_creation_to_its_end(self) -> None:
        self.addCleanup(self.delete_servers)
        self.create()
        self.refuse_at_once()
        self.refuse()
        self.grow()
        self.kill_the_conductor()
        self.add_realtime()
        self.remove_nodegroup()
        self.end()

    def create(self) -> None:
        self.coe(
            *("cluster", "template", "create", "fast"),
            *("--coe", "kubernetes", "--driver", "sriov_rt"),
            *("--image", NETWORK, "--external-network", "public"),
            *("--fixed-network", NETWORK, "--fixed-subnet", NETWORK),
            *("--master-flavor", "master.small", "--flavor", "fast.small"),
            *("--network-driver", "calico"),
        )
        self.coe(
            *("cluster", "create", "trading"),
            *("--cluster-template", "fast", "--keypair", NETWORK),
            *("--node-count", "1", "--merge-labels"),
            *("--labels", f"sriov_rt_networks={settings.POOL_NETWORK}"),
            *("--labels", "sriov_rt_pod_vif=macvlan"),
            *("--labels", "sriov_rt_pod_subnets=172.20.0.0/16"),
        )
        self.settle("CREATE_COMPLETE")
        self.coe("cluster", "show", "trading", "-c", "status", "-c", "name")
        self.coe("nodegroup", "list", "trading", *COLUMNS)
        self.assert_servers({"default-worker": 1})
        (node,) = self.provider.nodes().values()
        labels = node["metadata"]["labels"]
        self.assertEqual(
            "macvlan", labels["sriov-rt.openstack.org/fast-ports"]
        )

    def refuse_at_once(self) -> None:
        """Our filter of magnum-api answers what can never be with 400."""
        answer = self.coe(
            *("nodegroup", "create", "trading", "typo"),
            *("--flavor", "rt.node", "--labels", "sriov_rt_netwroks=physnet1"),
            fails=True,
        )
        self.assertIn("label 'sriov_rt_netwroks': ", answer)
        self.assertIn("HTTP 400", answer)

    def refuse(self) -> None:
        """A flavor that no host takes now is refused, with the Reasons."""
        self.coe(
            *("nodegroup", "create", "trading", "solarflare"),
            *("--flavor", "solarflare.node", "--node-count", "1"),
        )
        self.settle("UPDATE_FAILED")
        answer = self.coe(
            *("nodegroup", "show", "trading", "solarflare"),
            *("-c", "status", "-c", "status_reason", "-f", "value"),
        )
        self.assertIn("CREATE_FAILED", answer)
        self.assertIn("no host takes it", answer)
        self.assertIn("rt-1: ", answer)
        self.assertIn("openstack coe nodegroup delete", answer)
        self.coe("nodegroup", "delete", "trading", "solarflare")
        self.settle("UPDATE_COMPLETE")
        self.assert_servers({"default-worker": 1})

    def add_realtime(self) -> None:
        """The server of a realtime nodegroup has pinned CPUs and a VF."""
        self.coe(
            *("nodegroup", "create", "trading", "realtime"),
            *("--flavor", "rt.node", "--node-count", "1"),
            *("--labels", "sriov_rt_networks=physnet1"),
            *("--node-labels", "rack=7"),
        )
        self.settle("UPDATE_COMPLETE")
        self.coe("nodegroup", "list", "trading", *COLUMNS)
        self.assert_servers({"default-worker": 1, "realtime": 1})
        (server,) = self.servers("realtime")
        ports = list(self.cloud.api.network.ports(device_id=server.id))
        self.assertEqual(
            {"normal", "direct"}, {each.binding_vnic_type for each in ports}
        )
        (name,) = (
            each for each in self.provider.nodes() if "realtime" in each
        )
        node = self.provider.nodes()[name]
        labels = node["metadata"]["labels"]
        self.assertEqual("7", labels["rack"])
        self.assertEqual("1", labels["sriov-rt.openstack.org/realtime-cpus"])
        self.assertIn(
            "sriov-rt.openstack.org/realtime",
            {each["key"] for each in node["spec"]["taints"]},
        )

    def grow(self) -> None:
        self.coe("cluster", "resize", "trading", "2")
        self.settle("UPDATE_COMPLETE")
        self.assert_servers({"default-worker": 2})

    def kill_the_conductor(self) -> None:
        """The next resize repairs what a killed conductor has left.

        Magnum saves the nodegroup as UPDATE_IN_PROGRESS before its driver is
        called, and the cluster after it: no periodic task looks at the group.
        """
        self.magnum.reached.unlink(missing_ok=True)
        self.magnum.hold.touch()
        self.coe("cluster", "resize", "trading", "1")
        wait_for("Helm was called", self.magnum.reached.exists, timeout=120)
        self.magnum.kill_conductor()
        self.magnum.hold.unlink()
        self.magnum.start()
        self.assert_servers({"default-worker": 2})
        self.coe("cluster", "resize", "trading", "1")
        self.settle("UPDATE_COMPLETE")
        self.assert_servers({"default-worker": 1})

    def remove_nodegroup(self) -> None:
        self.coe("nodegroup", "delete", "trading", "realtime")
        self.settle("UPDATE_COMPLETE")
        self.assert_servers({"default-worker": 1})

    def end(self) -> None:
        self.coe("cluster", "delete", "trading")
        self.eventually("the cluster is gone", lambda: self.cluster() is None)
        self.coe("cluster", "list")
        self.assert_servers({})
        self.coe("cluster", "template", "delete", "fast")
        self.assertEqual([], self.provider.ports())
        self.assert_nothing_left()

    def coe(self, *words: str, fails: bool = False) -> str:
        """Run ``openstack coe``, and keep what a person sees of it.

        :param fails: whether it is to fail.
        :returns: what it printed.
        """
        env = self.magnum.env
        command = ("openstack", "coe", *words)
        try:
            found = run(
                command,
                timeout=120.0,
                environment={
                    **programs.environment(self.cloud.place, env),
                    **settings.client_environment(),
                },
            )
            self.assertFalse(fails, found)
        except errors.CommandFailed as error:
            found = str(error)
            self.assertTrue(fails, found)
        with self.transcript.open("a") as stream:
            stream.write(f"$ {shlex.join(command)}\n{found}\n")
        return found

    def cluster(self) -> Any:
        """Return the cluster as magnum-api has it; None if it is gone."""
        return self.read("clusters/trading")

    def read(self, path: str) -> Any:
        """Return what magnum-api has at a path; None if nothing."""
        service = self.cloud.api.container_infrastructure_management
        answer = service.get(
            f"/{path}",
            headers={"OpenStack-API-Version": "container-infra latest"},
            raise_exc=False,
        )
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.json()

    def settle(self, status: str) -> None:
        """Play the provider until the cluster has a status.

        That is one of an operation that has ended, and so are its nodegroups.
        """
        last: list[Any] = []

        def settled() -> bool:
            groups = self.read("clusters/trading/nodegroups") or {}
            last[:] = [
                (self.cluster() or {}).get("status"),
                *(each["status"] for each in groups.get("nodegroups", ())),
            ]
            return last[0] == status and not any(
                each.endswith("_IN_PROGRESS") for each in last
            )

        began = time.monotonic()
        try:
            self.eventually(f"the cluster is {status}", settled)
        except errors.TimedOut:
            found = self.cluster() or {}
            self.fail(f"{last}: {found.get('status_reason')}")
        say(f"{status} after {time.monotonic() - began:.1f} s")

    def eventually(self, what: str, probe: Callable[[], bool]) -> None:
        """Play the provider until something is true."""

        def probed() -> bool:
            self.provider.reconcile()
            for name, each in self.provider.servers().items():
                if each.status == "ERROR":
                    self.fail(f"{name}: {each.fault}")
            return probe()

        wait_for(what, probed, timeout=OPERATION_SECONDS, interval=2.0)

    def servers(self, group: str) -> list[Any]:
        """Return the servers of a nodegroup."""
        return [
            each
            for name, each in self.provider.servers().items()
            if f"-{group}-" in name
        ]

    def assert_servers(self, groups: dict[str, int]) -> None:
        """Check that nodegroups have so many servers, and where they are."""
        found = self.provider.servers()
        self.assertEqual(sum(groups.values()), len(found), sorted(found))
        for group, count in groups.items():
            servers = self.servers(group)
            self.assertEqual(count, len(servers), sorted(found))
            for each in servers:
                self.assertEqual(
                    ("ACTIVE", RT), (each.status, each.compute_host)
                )

    def delete_servers(self) -> None:
        """Delete servers and ports that a test that failed has left."""
        for each in self.provider.servers().values():
            self.cloud.servers.delete(each.id)
        for port in self.provider.ports():
            self.cloud.api.network.delete_port(port)
