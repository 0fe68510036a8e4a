# SPDX-License-Identifier: Apache-2.0

"""A worker of a realtime nodegroup that is a server of Nova's, and joins.

Our filter places it on rt-3, a host with isolated CPUs, and refuses std-1. Its
API server runs beside the cloud, at the end of the wire of rt-3's NICs; its
port is a macvtap that we make there.
"""

import base64
import pathlib
import tempfile
import time
from typing import ClassVar

from sriov_rt.magnum import nodegroup
from tests.cloud import guests
from tests.cloud.base import REALTIME
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.cloud.scheduler import explain
from tests.kubernetes import worker
from tests.testbed import errors
from tests.testbed import guest_view
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import realtime_host
from tests.testbed import seed
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.worker import image
from tests.testbed.kube.worker import machine
from tests.testbed.kube.worker import user_data
from tests.testbed.kube.worker.control_plane import ControlPlane
from tests.testbed.progress import Progress
from tests.testbed.services import RT3
from tests.testbed.services import STD
from tests.testbed.waiting import run

#: One vCPU for the kubelet and the like, one for a realtime pod.
SPECS = {
    **REALTIME,
    "hw:cpu_realtime_mask": "^0",
    "sriov_rt:vif": "macvlan",
}
FLAVOR, VCPUS, MIB = "rt.node", 2, 2048
NAME = "kube-worker"

#: The host unpacks the image on an emulated CPU.
CREATE_SECONDS = 900.0
BOOT_SECONDS = 1500.0
POD_SECONDS = 600.0
FACTS_SECONDS = 300.0


class TestWorker(CloudTestCase, worker.WorkerTestCase):
    """One worker, from its flavor to an answer of its pod."""

    logs = (
        "nova-scheduler.log",
        f"{RT3}/nova-compute.log",
        f"{RT3}/sriov-rt-agent.log",
        f"{RT3}/sriov-rt-neutron-agent.log",
    )
    port: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the cluster that it joins, and the host that carries it."""
        super().setUpClass()
        cloud = cls.cloud
        machine.lay_bridge(network.OUTLET)
        cls.addClassCleanup(machine.remove_bridge, network.OUTLET)
        cls.start_cluster()
        cls.addClassCleanup(cloud.leave, cloud.workers)
        cloud.join(cloud.workers, Progress())
        made = cloud.create_flavor(FLAVOR, SPECS, ram=MIB, vcpus=VCPUS)
        cls.addClassCleanup(cloud.api.compute.delete_flavor, made)
        cls.make_network()
        cls.make_image()

    @classmethod
    def start_cluster(cls) -> None:
        """Start the API server and what makes it a cluster."""
        place = cls.cloud.place
        found = paths.Paths(place.cache, place.state / "workload")
        cls.kube = Kube(found, machine.GATEWAY)
        if not cls.kube.programs.built:
            raise errors.TestbedError(
                "there is no network to build Kubernetes from in here; run "
                "`python3 -m tests.testbed.kube.worker` outside first"
            )
        cls.addClassCleanup(cls.kube.stop)
        cls.kube.start()
        cls.control = ControlPlane(cls.kube)
        cls.addClassCleanup(cls.control.stop)
        cls.control.start()

    @classmethod
    def make_network(cls) -> None:
        """Make the network at whose end the API server is, and a port."""
        api = cls.cloud.api.network
        made = api.create_network(
            name=NAME,
            is_port_security_enabled=False,
            provider_network_type="flat",
            provider_physical_network=realtime_host.POOL_NETWORK,
        )
        cls.addClassCleanup(api.delete_network, made)
        subnet = api.create_subnet(
            name=NAME,
            network_id=made.id,
            ip_version=4,
            cidr=f"{machine.GATEWAY.rpartition('.')[0]}.0/24",
            gateway_ip=machine.GATEWAY,
            is_dhcp_enabled=False,
        )
        address = {"subnet_id": subnet.id, "ip_address": machine.ADDRESS}
        port = api.create_port(network_id=made.id, fixed_ips=[address])
        cls.addClassCleanup(api.delete_port, port)
        cls.port = port.id

    @classmethod
    def make_image(cls) -> None:
        """Upload the image; its disk packed, since its host is emulated."""
        api, files = cls.cloud.api, image.in_cache(cls.cloud.place)
        kernel = seed.kernel(api, NAME, files.kernel, files.ramdisk)
        with tempfile.TemporaryDirectory() as scratch:
            packed = pathlib.Path(scratch) / "disk.qcow2"
            run(
                (
                    *("qemu-img", "convert", "-c", "-O", "qcow2"),
                    *("-o", "compression_type=zstd"),
                    *(str(files.disk), str(packed)),
                ),
                timeout=300,
            )
            made = seed.qcow2_image(
                api,
                NAME,
                packed,
                {
                    **kernel,
                    "os_command_line": (
                        f"{machine.ARGUMENTS} {worker.PARAMETERS}"
                    ),
                    "hw_machine_type": "q35",
                    # Its kernel has no driver for SATA, and libvirt no CD
                    # on virtio-blk.
                    "hw_cdrom_bus": "scsi",
                    "hw_scsi_model": "virtio-scsi",
                },
            )
        for each in (made, *kernel.values()):
            cls.addClassCleanup(api.image.delete_image, each)

    def test_a_server_of_nova_joins(self) -> None:
        self.show_placement()
        began = time.monotonic()
        servers = self.cloud.servers
        made = servers.create(
            worker.NAME,
            FLAVOR,
            image=NAME,
            ports=[self.port],
            fields={
                "config_drive": True,
                "user_data": base64.b64encode(
                    self.user_data().encode()
                ).decode(),
            },
        )
        self.addCleanup(self.delete, made)
        server = servers.wait(made, timeout=CREATE_SECONDS)
        self.assertEqual(
            ("ACTIVE", RT3), (server.status, server.host), server.fault
        )
        self.note(began, "the server is ACTIVE")
        names = ("name", "status", "OS-EXT-SRV-ATTR:host", "config_drive")
        columns = (word for each in names for word in ("-c", each))
        shown = self.cloud.run("openstack", "server", "show", made, *columns)
        say(f"server show:\n{shown}")
        self.assert_realtime(server.domain)
        self.assert_joins(
            lambda: self.cloud.servers.console(server.id), BOOT_SECONDS
        )
        self.note(began, "the node is ready")
        say(f"kubectl get node -o wide:\n{self.control.nodes()}")
        self.assert_pod_answers(POD_SECONDS)
        self.note(began, "the pod answers")

    def show_placement(self) -> None:
        """Check that our filter takes rt-3, and refuses std-1."""
        rows: list[list[str]] = []
        text = ""

        def taken() -> bool:
            nonlocal text
            text = explain(self, FLAVOR).stdout
            rows[:] = [
                [cell.strip() for cell in line.split("|")[1:3]]
                for line in text.splitlines()
                if line.startswith("|")
            ]
            return [RT3, "yes"] in rows

        try:
            self.wait_for(f"{RT3} is taken", taken, timeout=FACTS_SECONDS)
        finally:
            say(f"explain:\n{text}")
        self.assertIn([STD, "no"], rows)

    def assert_realtime(self, domain: str) -> None:
        """Check how the server runs on its host.

        :param domain: its name in libvirt.
        """
        host = self.cloud.host(RT3)
        found = guests.document(host, domain)
        self.assertEqual("kvm", found.get("type"))
        pins = guests.pins(found)
        dedicated = guest_view.cpus(realtime_host.DEDICATED_CPUS)
        self.assertEqual(
            {frozenset({cpu}) for cpu in dedicated}, {*pins.values()}
        )
        threads = {
            each.vcpu: each for each in guest_view.threads(host, domain)
        }
        self.assertEqual("OTHER", threads[0].policy)
        self.assertEqual(("FIFO", 1), (threads[1].policy, threads[1].priority))
        say(f"pCPUs of its vCPUs, of which 1 is FIFO: {pins}")

    def user_data(self) -> str:
        """Return the user data of a server of the nodegroup.

        Its flavor is as Nova has it; the values are those for the chart.
        """
        made = self.cloud.api.compute.find_flavor(
            FLAVOR, ignore_missing=False, get_extra_specs=True
        )
        rendered = nodegroup.render(
            nodegroup.Nodegroup("realtime", "realtime", {}),
            nodegroup.Flavor(
                made.name, made.vcpus, made.ram, made.extra_specs
            ),
            nodegroup.Settings(),
            dict,
        )
        return user_data.render(
            rendered.values, self.control.discovery, worker.NAME
        )

    def note(self, began: float, what: str) -> None:
        say(f"{what} after {time.monotonic() - began:.0f} s")
