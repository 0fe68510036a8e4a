# SPDX-License-Identifier: Apache-2.0

"""Node hooks of KubeVirt on the VFs of an 82576 that QEMU emulates."""

import json
import pathlib
import sys
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import python_env
from tests.testbed.waiting import run_logged
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network
from tests.vm import test_vf
from tests.vm.test_vf import ADDRESS
from tests.vm.test_vf import CLEAN
from tests.vm.test_vf import INDEX
from tests.vm.test_vf import VF

MAC = "52:54:00:aa:00:07"
UID = "5f6a0e3e-6f0c-4f5e-9f53-0c6a3d1d1f5e"
_INSIDE = pathlib.Path(__file__).with_name("kubevirt_node.py")

VMI = json.dumps(
    {
        "metadata": {
            "namespace": "realtime",
            "name": "rt",
            "uid": UID,
            "annotations": {"sriov-rt.openstack.org/guest": "lean"},
        },
        "spec": {
            "domain": {
                "devices": {"interfaces": [{"name": "fast", "sriov": {}}]}
            }
        },
    }
)

#: As sriov-cni writes it (NetConf of its pkg/types/types.go).
NOTE = {"deviceID": ADDRESS, "MAC": MAC, "vlan": 100, "spoofchk": "on"}

#: What a tenant and its network leave on a VF that vfio-pci has.
_DIRTY = f"""
set -e
ip link set {network.PF} vf {INDEX} mac 52:54:00:66:66:66
ip link set {network.PF} vf {INDEX} vlan 7
ip link set {network.PF} vf {INDEX} spoofchk off
ip link set {network.PF} vf {INDEX} max_tx_rate 200
"""

#: Has the VF as QEMU does, with QEMU's words on its command line.
_HOLD = (
    "import sys, time; held = open(sys.argv[1], 'rb', 0); "
    "print('held', flush=True); time.sleep(9999)"
)


@periodic
class NodeHookTest(test_vf.VfTestCase):
    """A VF that vfio-pci has, as KubeVirt's have it."""

    directory = "/root/kubevirt"
    grpc: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Have gRPC inside, and the VF."""
        super().setUpClass()
        cls.addClassCleanup(cls.restore)
        places = base.place()
        cls.grpc = places.cache / f"grpc-{python_env.RELEASE}"
        if not cls.grpc.exists():
            work = cls.grpc.with_suffix(".work")
            run_logged(
                (
                    *(sys.executable, "-m", "pip", "install", "--target"),
                    *(str(work), "-c", str(python_env.pins())),
                    *("grpcio", "protobuf"),
                ),
                timeout=base.PATIENCE,
                log=places.log / "pip.log",
            )
            work.rename(cls.grpc)

    def setUp(self) -> None:
        """Give the VF to vfio-pci, as a tenant left it."""
        super().setUp()
        self.sh(f"rm -rf {self.directory} /run/sriov-rt/vfs")
        self.sh(f"mkdir -p {self.directory}/cni")
        self.addCleanup(self.restore)
        self.done("vf", "set", VF, "driver=vfio-pci")
        self.sh(_DIRTY)
        self.vm.push(
            json.dumps(NOTE).encode(), f"{self.directory}/cni/c1-net1"
        )

    def hooks(
        self, *points: str, pod: str | None = "virt-launcher-rt-x2b7k"
    ) -> list[str]:
        """Return the answers to calls; empty where all is well.

        :param pod: that has the VF; without one the records are swept.
        """
        given = {
            "namespace": "realtime",
            "pod": pod,
            "vf": ADDRESS,
            "vmi": VMI,
            "points": points,
            "sweep": pod is None,
        }
        result = self.vm.run(
            (
                *("env", f"PYTHONPATH={self.grpc}"),
                *(base.product().program("python"), str(_INSIDE)),
                self.directory,
            ),
            timeout=base.PATIENCE,
            stdin=json.dumps(given).encode(),
        )
        found: list[str] = json.loads(result.stdout)
        return found

    def network_has_it(self) -> None:
        found = self.kernel()
        self.assertEqual(found["address"], MAC)
        self.assertEqual(found["vlan_list"][0]["vlan"], 100)
        self.assertEqual(
            (found["spoofchk"], found["rate"]["max_tx"]), (True, 0)
        )

    def is_clean(self) -> None:
        self.assertEqual(self.kernel(), {**self.kernel(), **CLEAN})
        left = self.sh("ls /run/sriov-rt/vfs").text.split()
        self.assertEqual(left, [])

    def test_from_a_tenant_to_a_network_to_the_baseline(self) -> None:
        """And nothing is written twice."""
        self.assertEqual(self.hooks("PreVMStart", "PreVMStart"), ["", ""])
        self.network_has_it()
        self.sh(_DIRTY)
        self.assertEqual(self.hooks("PostVMStop", "PostVMStop"), ["", ""])
        self.is_clean()

    def answer_while(self, name: str) -> str:
        """Return the answer to a call while a process has the VF.

        :param name: of the guest on its command line.
        """
        group = self.done("vf", "show", VF)["iommu_group"]
        log = base.place().log / f"{name}.log"
        log.unlink(missing_ok=True)
        job = self.vm.spawn(
            (
                *("python3", "-c", _HOLD, f"/dev/vfio/{group}"),
                *("-name", f"guest={name},debug-threads=on"),
            ),
            log=log,
        )
        wait_for(
            f"{name} has the VF",
            lambda: "held" in log.read_text(),
            timeout=base.PATIENCE,
        )
        (answer,) = self.hooks("PreMigrationTarget")
        self.vm.kill(job)
        return answer

    def test_while_qemu_has_it(self) -> None:
        """Its own is left alone, and another's is not taken away."""
        self.assertEqual(self.hooks("PreVMStart"), [""])
        self.assertEqual(self.answer_while("realtime_rt"), "")
        answer = self.answer_while("other_vm")
        self.assertIn("FAILED_PRECONDITION", answer)
        self.assertIn("guest=other_vm", answer)
        self.network_has_it()

    def test_what_no_hook_was_called_for(self) -> None:
        """As on a migration's source."""
        self.assertEqual(self.hooks("PreVMStart"), [""])
        self.sh(_DIRTY)
        self.hooks(pod=None)
        self.is_clean()
