# SPDX-License-Identifier: Apache-2.0

import dataclasses
import errno
import functools
import unittest
from unittest import mock

from sriov_rt import exceptions
from sriov_rt.cni.sriov_cni import CniUnknown
from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.kubevirt import domain
from sriov_rt.kubevirt.errors import CallRejected
from sriov_rt.kubevirt.errors import HookRefused
from sriov_rt.kubevirt.node_hook import NodeHook
from sriov_rt.kubevirt.pod_resources import Pod
from sriov_rt.nic.errors import NicError
from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from tests.unit.kubevirt import documents
from tests.unit.nic import fakes

VF, OTHER = "0000:01:10.0", "0000:01:10.1"
MAC = "52:54:00:00:00:07"
NETWORK = dataclasses.replace(BASELINE, mac=MAC, vlan=100)
OTHER_UID = "00000000-0000-4000-8000-000000000000"
POINTS = (
    "PreVMStart",
    "PostVMStart",
    "PreVMStop",
    "PostVMStop",
    "PreMigrationSource",
    "PreMigrationTarget",
    "PostMigrationTarget",
)


class Owners:
    """Which process has which VF."""

    def __init__(self):
        self.found = {}

    def of(self, vf, device):
        return self.found.get(vf.address)


class NodeHookTest(unittest.TestCase):
    def setUp(self):
        self.kernel = fakes.FakeKernel()
        self.tenancies = self.kernel.tenancies
        self.owners = Owners()
        self.other = None
        self.clock = fakes.Clock()
        self.networks = {VF: NETWORK}
        self.pods = (self.pod(),)
        self.hook = self.another()
        self.dirty(0)
        self.dirty(1)

    def another(self):
        return NodeHook(
            fakes.vfs(self.kernel, self.users, Kind.VMI),
            lambda: self.pods,
            self.network,
            lambda: domain.node_facts(Root("/nowhere")),
            lambda: self.owners,
            self.clock,
        )

    def holder(self, address=VF):
        return self.tenancies.get(address).of(Kind.VMI)

    def is_ready(self):
        found = self.holder()
        return found is not None and found.state is State.IN_USE

    def users(self, states):
        if self.other is not None:
            return {each.id.address: self.other for each in states}
        return {
            each.id.address: Use(
                guest=self.owners.found[each.id.address], driver="vfio-pci"
            )
            for each in states
            if each.id.address in self.owners.found
        }

    def network(self, vf):
        if vf not in self.networks:
            raise CniUnknown(vf, "no network has set it up")
        return self.networks[vf]

    @staticmethod
    def pod(name="virt-launcher-rt-x2b7k", devices=(VF,)):
        return Pod("realtime", name, frozenset(devices))

    def at(self, point, interfaces=("fast",), devices=(), **asked):
        asked = asked or {"guest": "lean"}
        document = documents.vmi(
            interfaces=interfaces, devices=devices, **asked
        )
        answer = self.hook.execute(documents.execute(point, document))
        self.assertEqual(b"", answer)

    def refused(self, *args, kind=HookRefused, **options):
        with (
            self.assertLogs("sriov_rt", "ERROR") as logs,
            self.assertRaises(kind) as caught,
        ):
            self.at(*args, **options)
        self.assertIn("vmi=realtime/rt refused at", logs.output[-1])
        return str(caught.exception)

    def dirty(self, index):
        """Leave a VF as a tenant and its network do."""
        self.kernel.dirty(index)
        self.kernel.change(index, vlan=7, spoofchk=False, max_tx_rate=10)

    def settings(self, index=0):
        return fakes.vfs(self.kernel).observe(fakes.vf_id(index)).settings

    def is_clean(self, index=0):
        found = self.settings(index)
        return all(
            wanted == getattr(found, name)
            for name, wanted in dataclasses.asdict(BASELINE).items()
            if wanted is not None and getattr(found, name) is not None
        )


class StartTest(NodeHookTest):
    def test_its_vf_is_clean_and_then_as_its_network_says(self):
        self.at("PreVMStart")
        found = self.settings()
        self.assertEqual((MAC, 100), (found.mac, found.vlan))
        self.assertEqual((True, 0), (found.spoofchk, found.max_tx_rate))
        self.assertEqual(
            Holder(Kind.VMI, documents.UID, "realtime/rt", State.IN_USE),
            self.holder(),
        )
        self.assertFalse(self.is_clean(1), "another pod's or nobody's")

    def test_while_another_has_the_vf_nothing_is_touched(self):
        for is_ready in (False, True):
            with self.subTest(is_ready=is_ready):
                with self.assertLogs("sriov_rt", "ERROR"):
                    fakes.refused_while_another_holds(
                        self, self.kernel, VF, lambda: self.at("PreVMStart")
                    )
                self.at("PreVMStart")
                self.kernel.change(0, vlan=7)

    def test_once_more_changes_nothing(self):
        self.at("PreVMStart")
        before = len(self.kernel.writes), len(self.kernel.binds)
        self.at("PreVMStart")
        self.assertEqual(
            before, (len(self.kernel.writes), len(self.kernel.binds))
        )

    def test_what_was_changed_in_between_is_set_again(self):
        self.at("PreVMStart")
        self.kernel.change(0, vlan=7)
        self.at("PreVMStart")
        self.assertEqual(100, self.settings().vlan)

    def test_while_its_guest_has_the_vf_nothing_is_touched(self):
        self.owners.found[VF] = "pid 7 qemu-kvm guest=realtime_rt"
        writes = len(self.kernel.writes)
        self.at("PreVMStart")
        self.assertEqual(writes, len(self.kernel.writes))

    def test_another_has_the_vf(self):
        for owner in ("pid 7 qemu-kvm guest=realtime_rt2", "pid 8 dpdk"):
            self.owners.found[VF] = owner
            self.assertIn(owner, self.refused("PreVMStart", kind=NicError))
        self.assertIsNone(self.holder())

    def test_another_took_the_vf_since_it_was_ready(self):
        self.at("PreVMStart")
        writes = len(self.kernel.writes)
        self.owners.found[VF] = "pid 8 dpdk"
        self.assertIn("pid 8 dpdk", self.refused("PreVMStart", kind=NicError))
        self.assertEqual(writes, len(self.kernel.writes))

    def test_a_guest_that_asks_nothing_starts_untouched(self):
        self.pods, writes = None, len(self.kernel.writes)
        document = documents.vmi(interfaces=("fast",))
        for point in (*POINTS[:3], *POINTS[4:], "PostEverything"):
            self.hook.execute(documents.execute(point, document))
        self.assertEqual(writes, len(self.kernel.writes))
        self.assertIsNone(self.holder())

    def test_a_death_between_the_two_begins_anew(self):
        self.tenancies.assign(
            VF, Holder(Kind.VMI, documents.UID, "realtime/rt")
        )
        self.at("PreVMStart")
        self.assertEqual(0, self.settings().max_tx_rate)
        self.assertTrue(self.is_ready())

    def test_a_vf_that_another_vmi_left_is_cleaned_first(self):
        other = Holder(Kind.VMI, OTHER_UID, "x/y").quarantined("old")
        self.tenancies.assign(VF, other)
        self.at("PreVMStart")
        self.assertEqual(documents.UID, self.holder().id)
        self.assertEqual(0, self.settings().max_tx_rate)

    def test_a_vf_of_another_manager_is_not_given(self):
        for kind in (Kind.POD, Kind.DOMAIN, Kind.PORT):
            for state in State:
                holder = Holder(kind, "x", "team/web-0", state, "dirty")
                self.tenancies.assign(VF, holder)
                writes = len(self.kernel.writes)
                with self.subTest(holder):
                    self.assertIn(
                        f"{kind} team/web-0",
                        self.refused(
                            "PreVMStart", kind=exceptions.SriovRtError
                        ),
                    )
                    self.assertEqual(writes, len(self.kernel.writes))
                self.tenancies.release(VF, kind)

    def test_the_vf_of_its_own_launcher_is_given_unless_quarantined(self):
        name = "realtime/virt-launcher-rt-x2b7k"
        holder = Holder(Kind.POD, "c1/net1", name, State.IN_USE)
        self.tenancies.assign(VF, holder)
        self.at("PreVMStart")
        self.at("PostVMStop")
        self.assertEqual(holder, self.tenancies.get(VF).of(Kind.POD))
        self.tenancies.assign(VF, holder.quarantined("dirty"))
        self.assertIn("dirty", self.refused("PreVMStart", kind=NicError))

    def test_a_port_on_a_clean_vf_keeps_it_from_a_vmi(self):
        self.at("PreVMStart")
        self.at("PostVMStop")
        self.other = Use(ports=("port p1 of web",))
        self.assertIn("port p1", self.refused("PreVMStart", kind=NicError))
        self.assertIsNone(self.holder())

    def test_a_vf_that_cannot_be_cleaned_keeps_the_vmi_from_starting(self):
        self.kernel.fail = {"spoofchk": [errno.EIO, ...]}
        self.refused("PreVMStart", kind=NicError)
        self.assertFalse(self.is_ready())

    def test_kubelet_names_too_few_vfs(self):
        for pods in (
            (),
            (self.pod(devices=("0000:7f:00.0",)),),
            (self.pod("virt-launcher-rt-x2b7k-y"),),
            (self.pod("virt-launcher-rt2-x2b7k"),),
        ):
            self.pods = pods
            self.assertIn("names 0 VFs", self.refused("PreVMStart"))

    def test_a_gpu_beside_a_vf_is_left_to_others(self):
        self.pods = (self.pod(devices=(VF, "0000:3b:00.0")),)
        self.at("PreVMStart")
        self.assertTrue(self.is_ready())

    def test_a_vf_that_no_network_has_set_up(self):
        self.networks = {}
        sentence = self.refused("PreVMStart", kind=CniUnknown)
        self.assertIn(VF, sentence)

    def test_a_vf_without_a_network_is_clean(self):
        self.networks = {}
        self.at("PreVMStart", interfaces=(), devices=("fast",))
        self.assertTrue(self.is_clean())

    def test_a_vmi_without_devices_needs_no_kubelet(self):
        self.pods = None
        self.at("PreVMStart", interfaces=())

    def test_a_node_that_cannot_hold_the_vmi(self):
        sentence = self.refused("PreVMStart", max_latency_us="50")
        self.assertIn("certificate", sentence)
        self.assertIsNone(self.holder())

    def test_a_migrations_target_is_prepared_alike(self):
        self.at("PreMigrationTarget")
        self.assertEqual(MAC, self.settings().mac)


class StopTest(NodeHookTest):
    def setUp(self):
        super().setUp()
        self.at("PreVMStart")
        self.dirty(0)

    def test_its_vf_is_clean_afterwards(self):
        self.at("PostVMStop")
        self.assertTrue(self.is_clean())
        self.assertIsNone(self.holder())
        self.at("PostVMStop")

    def test_while_another_has_the_vf_it_stays_recorded(self):
        with (
            fakes.locked_by_another(self.tenancies, VF),
            self.assertLogs("sriov_rt", "ERROR"),
            self.assertRaises(HookRefused),
        ):
            self.at("PostVMStop")
        self.assertTrue(self.is_ready())
        self.assertFalse(self.is_clean())

    def test_even_if_its_annotations_are_gone(self):
        document = documents.vmi()
        self.hook.execute(documents.execute("PostVMStop", document))
        self.assertTrue(self.is_clean())

    def test_others_are_left_alone(self):
        document = documents.vmi().replace(
            documents.UID.encode(), OTHER_UID.encode()
        )
        for each in (document, b"{", b""):
            self.hook.execute(documents.execute("PostVMStop", each))
        self.assertFalse(self.is_clean())

    def test_qemu_is_given_time_to_let_go(self):
        self.owners.found[VF] = "pid 7 qemu-kvm guest=realtime_rt"
        sleep = self.clock.sleep

        def let_go(seconds):
            sleep(seconds)
            if self.clock.now > 1002:
                self.owners.found.clear()

        self.clock.sleep = let_go
        self.at("PostVMStop")
        self.assertTrue(self.is_clean())

    def test_one_that_does_not_let_go_stays_recorded(self):
        self.owners.found[VF] = "pid 7 qemu-kvm guest=realtime_rt"
        self.assertIn("pid 7", self.refused("PostVMStop"))
        self.assertIn("pid 7", self.holder().reason)

    def test_a_vf_that_is_given_to_another_pod_meanwhile(self):
        self.pods = (self.pod("another"),)
        with self.assertLogs("sriov_rt", "WARNING") as logs:
            self.at("PostVMStop")
        self.assertIn(
            "kubelet has given it to realtime/another", logs.output[0]
        )
        self.assertFalse(self.is_clean())

    def test_one_that_is_another_vmis_until_it_is_locked(self):
        """Two servers run while the DaemonSet is updated."""
        listed = self.tenancies.of_kind

        def then_anothers(kind):
            found = listed(kind)
            self.tenancies.assign(VF, Holder(Kind.VMI, OTHER_UID, "x/y"))
            return found

        with mock.patch.object(self.tenancies, "of_kind", then_anothers):
            self.at("PostVMStop")
        self.assertFalse(self.is_clean())
        self.assertEqual(OTHER_UID, self.holder().id)

    def test_vfs_that_went_with_their_pf(self):
        self.kernel._make(0)
        self.at("PostVMStop")
        self.assertIsNone(self.holder())


class KillTest(NodeHookTest):
    def test_a_kill_at_any_write_leaves_no_vf_that_passes_for_clean(self):
        pod = fakes.vfs(self.kernel, lambda _: {}, Kind.POD)
        died = 0
        for point in ("PreVMStart", "PostVMStop"):
            for number in range(1, 99):
                if point == "PostVMStop":
                    self.at("PreVMStart")
                self.dirty(0)
                act = functools.partial(self.at, point)
                if not fakes.killed_at(self.kernel, number, act):
                    break
                died += 1
                if self.holder():
                    with self.assertRaises(NicError):
                        pod.check(fakes.vf_id(0), Act.HAND_OUT)
                else:
                    done = point == "PostVMStop"
                    self.assertEqual(done, self.is_clean(), number)
                self.pods, pods = (), self.pods
                self.hook.sweep()
                self.pods = pods
                self.assertIsNone(self.holder())
            self.at("PostVMStop")
        self.assertGreater(died, 10)


class SweepTest(NodeHookTest):
    def setUp(self):
        super().setUp()
        self.at("PreVMStart")
        self.dirty(0)

    def test_what_a_pod_holds_is_left_alone(self):
        self.hook.sweep()
        self.assertFalse(self.is_clean())

    def test_what_no_hook_was_called_for_is_cleaned(self):
        self.pods = ()
        self.hook.sweep()
        self.assertTrue(self.is_clean())
        self.assertIsNone(self.holder())

    def test_what_a_process_has_is_left_alone(self):
        self.pods = ()
        for owner in ("pid 7 qemu-kvm", Unknown("hidden")):
            self.owners.found[VF] = owner
            self.hook.sweep()
            self.assertFalse(self.is_clean())

    def test_one_that_cannot_be_looked_at_keeps_no_other_dirty(self):
        self.tenancies.assign(OTHER, Holder(Kind.VMI, OTHER_UID, "x/y"))
        self.pods = ()
        self.kernel.untold = {0: 10**6}
        with self.assertLogs("sriov_rt", "ERROR"):
            self.hook.sweep()
        self.assertTrue(self.is_clean(1))

    def test_a_fault_is_logged_once(self):
        self.pods = ()
        self.kernel.fail = {"spoofchk": [errno.EIO, ...]}
        with self.assertLogs("sriov_rt", "ERROR") as logs:
            self.hook.sweep()
            self.hook.sweep()
        self.assertEqual(1, len(logs.output))
        self.assertIn("vmi=realtime/rt", logs.output[0])

    def test_nothing_recorded_asks_kubelet_nothing(self):
        self.tenancies.release(VF, Kind.VMI)
        self.pods = None
        self.hook.sweep()


class ThreadsTest(NodeHookTest):
    def test_hooks_and_the_sweep_take_turns(self):
        """KubeVirt calls a hook several times at once."""
        with mock.patch("threading.Lock", fakes.TakenLock):
            hook = self.another()
        before = len(self.kernel.writes)
        for act in (
            hook.sweep,
            lambda: hook.execute(
                documents.execute("PreVMStart", documents.vmi())
            ),
            lambda: hook.execute(
                documents.execute("PostVMStop", documents.vmi())
            ),
        ):
            self.assertRaises(fakes.Taken, act)
        self.assertEqual(before, len(self.kernel.writes))


class CallTest(NodeHookTest):
    def test_points_at_which_nothing_is_done(self):
        self.pods = None
        for point in ("PostVMStart", "PreVMStop", "PreMigrationSource"):
            self.at(point)
        self.at("PostMigrationTarget")

    def test_a_point_that_is_unknown(self):
        sentence = self.refused("PostEverything", kind=CallRejected)
        self.assertIn("'PostEverything'", sentence)

    def test_what_is_no_message_of_the_contract(self):
        with self.assertRaises(CallRejected):
            self.hook.execute(b"\xff")

    def test_annotations_out_of_the_grammar(self):
        self.assertIn("guest: ", self.refused("PreVMStart", guest="naked"))
