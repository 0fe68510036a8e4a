# SPDX-License-Identifier: Apache-2.0

"""The virtual machine itself: what the other tests take for granted."""

import concurrent.futures
import contextlib
import pathlib

from tests.periodic import periodic
from tests.testbed import errors
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network


# All the other tests go this way.
@periodic
class CommandsTest(base.VmTestCase):
    """Commands run inside as they would here."""

    def test_output_and_status_come_back_apart(self) -> None:
        """Standard output, standard error and the status are kept apart."""
        result = self.vm.run(
            ("sh", "-c", "cat; echo oops >&2; exit 7"),
            check=False,
            stdin=b"\0in\n",
        )
        self.assertEqual(
            (result.status, result.stdout, result.stderr),
            (7, b"\0in\n", b"oops\n"),
        )

    def test_failure_is_an_error_that_shows_the_output(self) -> None:
        """A checked command that fails raises, with what it said."""
        with self.assertRaises(errors.CommandFailed) as caught:
            self.vm.run(("sh", "-c", "echo why >&2; false"))
        self.assertIn("why", str(caught.exception))

    def test_missing_program_is_an_error(self) -> None:
        """A program that isn't there is an error that names it."""
        with self.assertRaisesRegex(errors.TestbedError, "no-such-program"):
            self.vm.run(("no-such-program",))

    def test_large_output_arrives_whole(self) -> None:
        """No part of 20 MB is lost."""
        result = self.vm.run(("head", "-c", "20000000", "/dev/zero"))
        self.assertEqual(result.stdout.count(b"\0"), 20_000_000)

    def test_commands_run_at_once(self) -> None:
        """Each of eight clients gets its own answer."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            texts = pool.map(
                lambda n: self.vm.run(("sh", "-c", f"sleep 1; echo {n}")).text,
                range(8),
            )
        self.assertEqual([int(text) for text in texts], list(range(8)))

    def test_late_command_is_ended_with_its_children(self) -> None:
        """A command that takes too long leaves no process behind."""
        with self.assertRaises(errors.TimedOut):
            self.vm.run(("sh", "-c", "sleep 4711 & wait"), timeout=1)
        found = self.vm.run(("pgrep", "-f", "^sleep 4711"), check=False)
        self.assertEqual((found.status, found.text), (1, ""))

    def test_job_logs_to_the_shared_directory_until_killed(self) -> None:
        """A job's log is seen outside while it runs, and it can be ended."""
        log = base.place().log / "job.log"
        log.unlink(missing_ok=True)
        job = self.vm.spawn(
            ("sh", "-c", "echo $WORD; exec sleep 4712"),
            log=log,
            environment={"WORD": "hello"},
        )
        self.assertEqual(
            self.sh(f"cat /proc/{job.pid}/comm").text.strip()[:5], "sleep"
        )
        self.assertEqual(log.read_text(), "hello\n")
        self.assertIsNone(self.vm.status(job))
        self.vm.kill(job)
        self.assertEqual(self.vm.status(job), -15)

    def test_files_are_written_inside_only(self) -> None:
        """What is written outside the state directory stays in memory."""
        path = "/etc/sriov-rt-vm-test/deep/file"
        self.vm.push(b"text", path)
        self.assertEqual(self.vm.read_file(path), "text")
        self.assertFalse(pathlib.Path(path).exists())


class HardwareTest(base.VmTestCase):
    """The machine is a realtime host with SR-IOV cards."""

    def test_kernel_is_preempt_rt(self) -> None:
        """Debian's realtime kernel runs."""
        self.assertEqual(self.vm.read_file("/sys/kernel/realtime"), "1\n")

    def test_two_cpus_are_isolated_and_tick_free(self) -> None:
        """CPUs 2 and 3 are for guests."""
        for name in ("isolated", "nohz_full"):
            with self.subTest(name):
                path = f"/sys/devices/system/cpu/{name}"
                self.assertEqual(self.vm.read_file(path), "2-3\n")

    @periodic
    def test_each_vf_gets_an_answer_of_its_pf(self) -> None:
        """The PF shows the MAC that the VF's driver made up.

        A VF without an answer has no link (see guest/vfs.sh). On a machine
        that is short of CPU time a PF may be late once: the driver of a VF
        that is up asks again every ten seconds.
        """
        self.addCleanup(
            network.serve_mailboxes, self.vm, network.OWN_MAILBOX_CPU
        )
        network.serve_mailboxes(self.vm, network.MAILBOX_CPU)
        self.addCleanup(self._set_vfs, "down")
        self._set_vfs("up")
        with contextlib.suppress(errors.TimedOut):
            wait_for(
                "every PF shows the MACs of its VFs",
                lambda: not self._unanswered(),
                timeout=network.ANSWER,
            )
        self.assertEqual(self._unanswered(), [])

    def _set_vfs(self, state: str) -> None:
        self.sh(
            "for path in /sys/class/net/enp?s0/device/virtfn*/net/*; do\n"
            f"ip link set ${{path##*/}} {state}; done"
        )

    def _unanswered(self) -> list[str]:
        """Return the VFs whose PFs show another MAC than their own."""
        return [
            f"{pf}v{index}"
            for pf in (network.PF, network.FAR)
            for index in range(4)
            if network.vf_settings(self.vm, index, pf)["address"]
            != self.vm.read_file(
                f"/sys/class/net/{pf}v{index}/address"
            ).strip()
        ]

    @periodic
    def test_vfs_of_two_pfs_reach_each_other(self) -> None:
        """The PFs are wired: a VF of one pings a VF of the other."""
        self.addCleanup(
            network.serve_mailboxes, self.vm, network.OWN_MAILBOX_CPU
        )
        network.serve_mailboxes(self.vm, network.MAILBOX_CPU)
        self.addCleanup(self.sh, "ip netns del vf-a; ip netns del vf-b")
        self.sh(
            "set -e; modprobe veth; ip netns add vf-a; ip netns add vf-b\n"
            "ip link set enp1s0v0 netns vf-a\n"
            "ip link set enp2s0v0 netns vf-b\n"
            "ip -n vf-a address add 192.0.2.1/24 dev enp1s0v0\n"
            "ip -n vf-b address add 192.0.2.2/24 dev enp2s0v0\n"
            "ip -n vf-a link set enp1s0v0 up\n"
            "ip -n vf-b link set enp2s0v0 up\n"
        )
        ping = self.sh(
            "ip netns exec vf-a ping -c 3 -w 60 192.0.2.2", check=False
        )
        self.assertIn("3 received", ping.text, ping.complaint)
