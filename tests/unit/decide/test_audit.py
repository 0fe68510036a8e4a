# SPDX-License-Identifier: Apache-2.0

import dataclasses
import unittest

from sriov_rt.codec import Unknown
from sriov_rt.decide import audit
from sriov_rt.facts import decisive
from sriov_rt.facts.guests import GuestDevice
from sriov_rt.facts.guests import GuestMemory
from sriov_rt.facts.guests import GuestOnload
from sriov_rt.facts.guests import GuestThread
from sriov_rt.facts.guests import KubeletCpus
from sriov_rt.facts.guests import OtherThread
from sriov_rt.facts.guests import PodCpus
from sriov_rt.facts.guests import RunningGuest
from sriov_rt.facts.guests import Schedule
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from tests.unit import builders

UUID = "5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa"
FIFO = Schedule("fifo", 1)
VCPU = GuestThread("vcpu 0", 11, cpus("2"), FIFO, cpus("2"), FIFO)
EMULATOR = GuestThread(
    "emulator", 10, cpus("0-1"), Schedule("other"), cpus("0-1")
)
GUEST = RunningGuest(
    instance=UUID,
    guest_class="bare",
    realtime=True,
    threads=(EMULATOR, VCPU),
    memory=GuestMemory(True, 1024, 1024, True, True),
    devices=(GuestDevice("0000:01:10.0", "vfio-pci", cpus("0")),),
    virtio=(),
)


#: A container with two pCPUs of its own.
CONTAINER = RunningGuest(
    instance=UUID,
    guest_class="standard",
    realtime=True,
    threads=(
        GuestThread("process", 20, cpus("2-3"), FIFO, cpus("2-3")),
        GuestThread("process", 21, cpus("3"), FIFO, cpus("2-3")),
    ),
    memory=None,
    devices=(),
    virtio=(),
    cpuset=cpus("2-3"),
)


def host(**parts):
    """Return a host whose CPUs 2 and 3 are isolated and Nova's."""
    return decisive(builders.realtime_host(**parts))


class WhyNotTest(unittest.TestCase):
    def codes(self, guest=GUEST, on=None, **more):
        found = audit.why_not(guest, host() if on is None else on, **more)
        for each in found:
            self.assertTrue(each.remedy, each)
        return [each.code for each in found]

    def changed(self, **fields):
        return self.codes(dataclasses.replace(GUEST, **fields))

    def thread(self, thread, **fields):
        return self.changed(threads=(dataclasses.replace(thread, **fields),))

    def test_a_guest_as_promised(self):
        self.assertEqual([], self.codes())

    def test_threads_that_were_moved(self):
        moved = ["guest_thread_moved"]
        self.assertEqual(moved, self.thread(VCPU, cpus=cpus("0")))
        self.assertEqual(moved, self.thread(EMULATOR, cpus=cpus("0-2")))
        self.assertEqual([], self.thread(EMULATOR, cpus=cpus("0")))
        self.assertEqual([], self.thread(VCPU, promised_cpus=None))

    def test_threads_that_were_rescheduled(self):
        for schedule in (Schedule("other"), Schedule("fifo", 2)):
            with self.subTest(str(schedule)):
                self.assertEqual(
                    ["guest_thread_rescheduled"],
                    self.thread(VCPU, schedule=schedule),
                )

    def test_realtime_vcpus_on_other_cpus(self):
        self.assertEqual(
            ["guest_cpus_not_isolated"],
            self.thread(VCPU, cpus=cpus("1"), promised_cpus=cpus("1")),
        )

    def test_memory(self):
        for memory, code in (
            ((False, 1024, 1024, True, True), "guest_memory_unlocked"),
            ((True, 512, 1024, True, True), "guest_memory_small"),
        ):
            with self.subTest(code):
                self.assertEqual(
                    [code], self.changed(memory=GuestMemory(*memory))
                )
        small = GuestMemory(True, 512 * 1024, 1024 * 1024, True, True)
        guest = dataclasses.replace(GUEST, memory=small)
        (found,) = audit.why_not(guest, host())
        self.assertIn("512 MiB are on huge pages", found.message)
        self.assertIn("the guest has 1024 MiB", found.message)
        ordinary = GuestMemory(False, 0, 1024, False, False)
        self.assertEqual([], self.changed(memory=ordinary))
        self.assertEqual([], self.changed(memory=None))

    def test_devices(self):
        self.assertEqual(
            ["guest_device_forbidden"], self.changed(virtio=("disk vdb",))
        )
        self.assertEqual(
            [], self.changed(virtio=("disk vdb",), guest_class="lean")
        )
        for driver, irqs, code in (
            (None, "0", "guest_device_lost"),
            ("igbvf", "0", "guest_device_lost"),
            ("mlx5_vfio_pci", "2", "guest_irq_on_pcpu"),
        ):
            with self.subTest(code):
                device = GuestDevice("0000:01:10.0", driver, cpus(irqs))
                self.assertEqual([code], self.changed(devices=(device,)))

    def test_a_device_that_was_taken_from_it(self):
        # Whatever has the VF at its address now.
        for driver in (None, "vfio-pci"):
            device = GuestDevice("0000:01:10.0", driver, cpus(""), False)
            self.assertEqual(
                ["guest_device_pulled"], self.changed(devices=(device,))
            )

    def test_a_thread_of_nobodys_guest(self):
        self.assertEqual(
            ["guest_cpu_shared"], self.codes(others=[OtherThread(9, "x", 2)])
        )
        self.assertEqual([], self.codes(others=[OtherThread(9, "x", 1)]))

    def test_threads_of_its_own_and_of_another_guest(self):
        own, other = (OtherThread(9, "x", 2, each) for each in (UUID, "b"))
        self.assertEqual([], self.codes(others=[own]))
        self.assertEqual(["guest_cpu_shared"], self.codes(others=[other]))

    def test_a_container(self):
        self.assertEqual([], self.codes(CONTAINER))
        away = dataclasses.replace(CONTAINER.threads[0], cpus=cpus("0-3"))
        guest = dataclasses.replace(CONTAINER, threads=(away,))
        self.assertEqual(["guest_thread_moved"], self.codes(guest))
        shared = [OtherThread(9, "x", 3)]
        self.assertEqual(
            ["guest_cpu_shared"], self.codes(CONTAINER, others=shared)
        )

    def test_a_container_that_is_promised_no_pcpus(self):
        guest = dataclasses.replace(CONTAINER, realtime=False)
        shared = [OtherThread(9, "x", 3)]
        self.assertEqual([], self.codes(guest, others=shared))

    def test_onload_that_is_not_injected(self):
        onload = GuestOnload("asked", "no library")
        for is_plain, codes in ((False, ["guest_without_onload"]), (True, [])):
            guest = dataclasses.replace(CONTAINER, is_plain=is_plain)
            self.assertEqual(codes, self.codes(guest, acceleration=onload))

    def test_onload_that_cannot_work(self):
        injected = GuestOnload("injected", "no stack")
        able = decisive(builders.onload_host())
        for on, codes in (
            (able, []),
            (host(onload={"modules": ()}), ["guest_onload_idle"]),
            (host(onload={"modules": Unknown("why")}), []),
        ):
            onload = dataclasses.replace(
                able.onload, modules=on.onload.modules
            )
            on = dataclasses.replace(on, onload=onload)
            self.assertEqual(codes, self.codes(on=on, acceleration=injected))
        accelerated = GuestOnload("accelerated", "")
        self.assertEqual([], self.codes(acceleration=accelerated))

    def test_isolated_cpus_that_are_unknown(self):
        on = host(cpus={"isolated": Unknown("why")})
        self.assertEqual((), audit.why_not(GUEST, on))


class PodsTest(unittest.TestCase):
    def codes(self, pod, shared="0-1", realtime="2", **parts):
        kubelet = KubeletCpus(
            (PodCpus("uid", "app", cpus(pod)),),
            None if shared is None else cpus(shared),
        )
        found = list(audit.pods(kubelet, host(**parts), cpus(realtime)))
        for _, each in found:
            self.assertTrue(each.remedy, each)
        return [(pod, each.code) for pod, each in found]

    def test_a_pod_on_pcpus_of_nova(self):
        self.assertEqual([("uid", "pod_cpus_dedicated")], self.codes("3"))
        self.assertEqual(
            [("uid", "pod_cpus_dedicated")],
            self.codes("2", compute={"dedicated": None}),
        )
        self.assertEqual([], self.codes("3", compute={"dedicated": None}))

    def test_a_pod_on_cpus_that_are_not_isolated(self):
        alone = {"dedicated": None}
        self.assertEqual(
            [("uid", "pod_cpus_not_isolated")],
            self.codes("1,3", compute=alone),
        )
        for isolated in (cpus(""), Unknown("why")):
            found = self.codes(
                "1,3", compute=alone, cpus={"isolated": isolated}
            )
            self.assertEqual([], found)

    def test_pods_without_cpus_of_their_own(self):
        alone = {"dedicated": None}
        self.assertEqual(
            [("", "pods_on_pcpus")],
            self.codes("3", "0-2", compute=alone),
        )
        self.assertEqual([], self.codes("3", None, compute=alone))
