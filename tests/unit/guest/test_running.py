# SPDX-License-Identifier: Apache-2.0

"""Which guests libvirt runs, by its status files."""

import hypothesis
from hypothesis import strategies

from sriov_rt.codec import Unknown
from sriov_rt.guest import metadata
from sriov_rt.guest import running
from sriov_rt.guest.metadata import Promise
from tests.unit.host import trees

A = "5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa"
B = "7a5e1f6c-2f43-4a53-9a2a-5a3c07d5f0c1"

#: As libvirt 9.0 writes it of a virtual machine, most of it left out.
STATUS = """<!--
WARNING: THIS IS AN AUTO-GENERATED FILE. CHANGES TO IT ARE LIKELY TO BE
OVERWRITTEN AND LOST. Changes to this xml configuration should be made using:
  virsh edit instance-00000001
or other application using the libvirt API.
-->

<domstatus state='running' reason='booted' pid='{pid}'>
  <taint flag='custom-argv'/>
  <monitor path='/var/lib/libvirt/qemu/domain-1/monitor.sock' type='unix'/>
  <vcpus>
    <vcpu id='0' pid='4712'/>
  </vcpus>
  <qemuCaps>
    <flag name='kvm'/>
  </qemuCaps>
  <job type='none' async='none'/>
  <domain type='{type}' id='1'>
    <name>instance-00000001</name>
    <uuid>{uuid}</uuid>
    <metadata>
      <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
        <nova:name>server</nova:name>
      </nova:instance>
      {metadata}
    </metadata>
    <os>
      <type arch='x86_64'>hvm</type>
    </os>
  </domain>
</domstatus>
"""
OURS = (
    '<sriov_rt:guest xmlns:sriov_rt="https://docs.openstack.org/sriov-rt/'
    'guest/1.0" class="lean" version="1" {}>strip: video</sriov_rt:guest>'
)


class HostTest(trees.TreeTest):
    """A host with a machine and a container."""

    def setUp(self):
        super().setUp()
        self.machine("a", A, 100)
        self.container("b", B, 200)

    def machine(self, name, uuid, pid, more=""):
        text = STATUS.format(pid=pid, uuid=uuid, type="kvm", metadata=more)
        self.tree.write(f"run/libvirt/qemu/{name}.xml", text)
        command = f"/usr/libexec/qemu-kvm\0-uuid\0{uuid}\0"
        self.tree.write(f"proc/{pid}/cmdline", command)

    def container(self, name, uuid, pid):
        text = STATUS.format(pid=pid, uuid=uuid, type="lxc", metadata="")
        self.tree.write(f"run/libvirt/lxc/{name}.xml", text)
        self.tree.write(f"proc/{pid}/comm", f"{running.KEEPER}\n")


class RunningTest(HostTest):
    def found(self, directory):
        found = running.guests(self.root, directory)
        return [(each.instance, each.process) for each in found]

    def test_each_driver_has_its_own(self):
        self.machine("c", B, 300)
        self.assertEqual([(A, 100), (B, 300)], self.found(running.MACHINES))
        self.assertEqual([(B, 200)], self.found(running.CONTAINERS))

    def test_what_a_dead_libvirtd_left_is_nobodys(self):
        # The number is another guest's by now, or nobody's.
        self.machine("a", A, 100)
        self.tree.write("proc/100/cmdline", f"qemu\0-uuid\0{B}\0")
        self.assertEqual([], self.found(running.MACHINES))
        self.tree.remove("proc/100")
        self.assertEqual([], self.found(running.MACHINES))
        self.tree.write("proc/200/comm", "sshd\n")
        self.assertEqual([], self.found(running.CONTAINERS))

    def test_a_process_that_may_not_be_looked_at_runs(self):
        self.tree.make_unreadable("proc/100/cmdline")
        self.assertEqual([(A, 100)], self.found(running.MACHINES))

    def test_one_that_ends_meanwhile_is_left_out(self):
        self.tree.link("run/libvirt/qemu/c.xml", "gone")
        self.assertEqual([(A, 100)], self.found(running.MACHINES))

    def test_a_host_without_any(self):
        self.tree.remove("run/libvirt/qemu")
        self.assertEqual([], self.found(running.MACHINES))

    def test_who_may_not_read_does_not_know(self):
        self.tree.make_unreadable("run/libvirt/qemu/a.xml")
        found = running.guests(self.root, running.MACHINES)
        self.assertIsInstance(found, Unknown)
        self.tree.remove("run/libvirt/qemu")
        self.tree.link("run/libvirt/qemu", "qemu")
        found = running.guests(self.root, running.MACHINES)
        self.assertIsInstance(found, Unknown)

    def test_files_that_are_none_of_libvirts(self):
        good = STATUS.format(pid=1, uuid=A, type="kvm", metadata="")
        self.assertIsNotNone(running.parse(good))
        for text in (
            "x",
            "<domstatus pid='1'/>",
            good.replace(A, "me"),
            good.replace("pid='1'", "pid='x'"),
            good.replace("</os>", ""),
            good.replace("<domain type", "<domain2 type"),
            good.replace("<name>", "<name>&x;"),
        ):
            with self.subTest(text=text[-80:]):
                self.assertIsNone(running.parse(text))
        self.tree.write("run/libvirt/qemu/c.xml", "x")
        self.tree.write("run/libvirt/qemu/a.pid", "100\n")
        self.assertEqual([(A, 100)], self.found(running.MACHINES))

    @hypothesis.settings(derandomize=True, deadline=None, max_examples=200)
    @hypothesis.given(
        strategies.integers(0, 1200), strategies.integers(0, 40),
        strategies.text(max_size=12),
    )  # fmt: skip
    def test_any_text_is_taken(self, place, length, other):
        ours = OURS.format('max_latency_us="30"')
        good = STATUS.format(pid=1, uuid=A, type="kvm", metadata=ours)
        found = running.parse(good[:place] + other + good[place + length :])
        if found is not None:
            metadata.promised(found.domain)


class PromiseTest(HostTest):
    """What a guest was promised is in its metadata."""

    def promised(self, more):
        self.machine("a", A, 100, more)
        (found,) = running.guests(self.root, running.MACHINES)
        return metadata.promised(found.domain)

    def test_what_our_hooks_wrote(self):
        for given, wanted in (
            ('max_latency_us="30"', Promise(False, 30)),
            ('realtime="yes"', Promise(True, None)),
            ('realtime="yes" max_latency_us="30"', Promise(True, 30)),
            ("", Promise(False, None)),
        ):
            with self.subTest(given):
                self.assertEqual(wanted, self.promised(OURS.format(given)))

    def test_a_guest_of_another_flavor_was_promised_nothing(self):
        self.assertEqual(Promise(False, None), self.promised(""))

    def test_what_no_hook_writes_is_no_promise(self):
        for text in ("-1", "0", "9" * 5000, "1e3", "\u0663", " 30", "x"):
            with self.subTest(text[:10]):
                given = OURS.format(f'max_latency_us="{text}"')
                self.assertEqual(Promise(False, None), self.promised(given))
