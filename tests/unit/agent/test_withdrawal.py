# SPDX-License-Identifier: Apache-2.0

"""Who is notified that a host's certificate counts no more, and of whom."""

import dataclasses
import os
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg
from oslo_messaging.notify import _impl_test

from sriov_rt import config
from sriov_rt import facts
from sriov_rt.agent import withdrawal
from sriov_rt.agent.withdrawal import Affected
from sriov_rt.agent.withdrawal import Withdrawal
from sriov_rt.codec import Unknown
from sriov_rt.facts import certificate
from sriov_rt.facts.culprit import Culprit
from sriov_rt.guest.metadata import Promise
from sriov_rt.host import latency
from sriov_rt.placement import host_traits
from sriov_rt.reason import reason
from sriov_rt.service import messaging
from sriov_rt.verify import certificate as verify_certificate
from tests.unit import builders
from tests.unit.agent import fakes
from tests.unit.guest import test_running
from tests.unit.host import trees

LOGGER = "sriov_rt.agent.withdrawal"
A, B = test_running.A, test_running.B
LATENT = Affected(A, Promise(realtime=True, max_latency_us=30))
REALTIME = Affected(B, Promise(realtime=True, max_latency_us=None))
WHY = reason("latency_withdrawn", why="CPU 2 had a latency of 88 µs")


def host(**certificate):
    """Return a host's facts with its certificate, none if nothing is said."""
    found = None
    if certificate:
        release = builders.realtime_host().kernel.release
        given = {"max_latency_us": 18, "kernel": release, "expires_at": 2e9}
        found = facts.LatencyCertificate(**(given | certificate))
    return builders.realtime_host(latency={"certificate": found})


COUNTS = host(withdrawn="")
GONE = host(withdrawn="SMT changed from '0' to '1'")


class WithdrawalsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.running = (LATENT, REALTIME)
        self.looks = 0
        self.found = []
        self.withdrawals = withdrawal.Withdrawals(self.find, self.found.append)

    def find(self):
        self.looks += 1
        return self.running

    def observe(self, facts, now=1e9):
        """Return what is notified of; each is one line of the log."""
        before = len(self.found)
        reasons = host_traits.verdicts(facts, now)[
            host_traits.LATENCY_CERTIFIED
        ]
        with self.assertLogs(LOGGER, "WARNING") as logs:
            # assertLogs wants one.
            withdrawal.LOG.warning("observed")
            self.withdrawals.observe(facts, reasons)
        self.lines = [each.getMessage() for each in logs.records[1:]]
        self.assertEqual(len(self.found) - before, len(self.lines))
        return self.found[before:]

    def test_a_change_names_the_instances_once(self):
        self.assertEqual([], self.observe(COUNTS))
        (found,) = self.observe(GONE)
        self.assertEqual((LATENT, REALTIME), found.instances)
        self.assertEqual(("rt-1", "rt-1"), (found.host, found.node))
        self.assertIn("SMT changed from '0' to '1'", found.sentence)
        (line,) = self.lines
        self.assertTrue(
            line.startswith(
                "latency certificate withdrawn: host=rt-1 node=rt-1 "
                f"instances={A}(realtime max_latency_us=30),{B}(realtime) "
                "[latency_withdrawn] the latency certificate was withdrawn: "
                "SMT changed"
            ),
            line,
        )
        for _ in range(3):
            self.assertEqual([], self.observe(GONE))

    def test_expiry_is_no_change_of_the_facts(self):
        self.assertEqual([], self.observe(COUNTS, now=2e9 - 1))
        (found,) = self.observe(COUNTS, now=2e9 + 5)
        self.assertEqual(["latency_expired"], found.payload()["codes"])
        # The Reason counts the seconds since; it is the same withdrawal.
        self.assertEqual([], self.observe(COUNTS, now=2e9 + 10))

    def test_a_file_that_is_gone_or_edited(self):
        for after in (
            host(),
            builders.realtime_host(
                latency={"certificate": Unknown("the file was edited")}
            ),
        ):
            self.observe(COUNTS)
            self.assertEqual(1, len(self.observe(after)))

    def test_each_certificate_once(self):
        """A condition that comes and goes is one notification."""
        for expires_at in (2e9, 2e9 + 1, 2e9 + 2):
            counts = host(withdrawn="", expires_at=expires_at)
            gone = host(withdrawn="SMT changed", expires_at=expires_at)
            found = []
            for _ in range(100):
                found += self.observe(counts)
                found += self.observe(gone)
            self.assertEqual(1, len(found))

    def test_nobody_runs(self):
        self.running = ()
        self.observe(COUNTS)
        (found,) = self.observe(GONE)
        self.assertEqual((), found.instances)
        self.assertIn(" instances=none [", self.lines[0])

    def test_who_runs_is_not_known(self):
        self.running = Unknown("/run/libvirt/qemu/a.xml: Permission denied")
        self.observe(COUNTS)
        (found,) = self.observe(GONE)
        self.assertIn("instances=unknown (/run/libvirt", self.lines[0])
        payload = found.payload()
        self.assertEqual([], payload["instances"])
        self.assertIn("Permission denied", payload["instances_unknown"])
        self.assertEqual([], self.observe(GONE))

    def test_a_host_that_never_had_one_is_left_alone(self):
        self.assertEqual([], self.observe(host()))
        self.assertEqual(0, self.looks)

    def test_an_agent_that_starts_after_it_names_who_asked_for_it(self):
        self.running = (REALTIME,)
        self.assertEqual([], self.observe(GONE))
        self.running = (LATENT, REALTIME)
        (found,) = self.observe(GONE)
        self.assertEqual((LATENT, REALTIME), found.instances)
        self.assertEqual([], self.observe(GONE))

    def test_one_that_is_started_again_with_the_host_is_named(self):
        self.observe(COUNTS)
        self.running = ()
        self.observe(GONE)
        self.running = (LATENT,)
        (found,) = self.observe(GONE)
        self.assertEqual((LATENT,), found.instances)
        # A reboot of the guest is nothing new.
        for self.running in ((), (LATENT,)):
            self.assertEqual([], self.observe(GONE))


class AffectedTest(test_running.HostTest):
    def setUp(self):
        super().setUp()
        self.machine("a", A, 100, test_running.OURS.format('realtime="yes"'))

    def test_those_that_ask(self):
        self.machine("b", B, 300)
        asks = Affected(A, Promise(realtime=True, max_latency_us=None))
        self.assertEqual((asks,), withdrawal.affected(self.root))

    def test_containers_as_well(self):
        text = test_running.STATUS.format(
            pid=200,
            uuid=B,
            type="lxc",
            metadata=test_running.OURS.format('max_latency_us="7"'),
        )
        self.tree.write("run/libvirt/lxc/b.xml", text)
        self.assertEqual(
            [A, B], [each.instance for each in withdrawal.affected(self.root)]
        )

    def test_a_host_without_libvirt(self):
        self.tree.remove("run")
        self.assertEqual((), withdrawal.affected(self.root))

    def test_who_may_not_read_does_not_know(self):
        self.tree.make_unreadable("run/libvirt/lxc/b.xml")
        self.assertIsInstance(withdrawal.affected(self.root), Unknown)


class NotifyingTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf([])
        self.set("sriov_rt", transport_url="fake://")
        _impl_test.reset()

    def set(self, group, **values):
        if group == "sriov_rt":
            self.conf.register_opts(config.TRANSPORT_OPTS, group=group)
        for name, value in values.items():
            self.conf.set_override(name, value, group=group)

    def notifications(self, **values):
        """Set oslo.messaging's own options."""
        oslo_messaging.get_notification_transport(self.conf, "fake://")
        self.set("oslo_messaging_notifications", **values)

    def notifier(self):
        return messaging.notifier(self.conf, "sriov-rt-agent:rt-1")

    def withdrawal(self, instances=(LATENT, REALTIME)):
        return Withdrawal("rt-1", "node-1", (WHY,), instances)

    def test_by_default_nothing_is_sent(self):
        self.assertIsNone(self.notifier())

    def test_what_is_sent(self):
        self.notifications(driver=["test"])
        notifying = withdrawal.Notifying(self.notifier(), fakes.Crash())
        notifying.put(self.withdrawal())
        notifying.worker.tick()
        ((_, message, priority, _),) = _impl_test.NOTIFICATIONS
        self.assertEqual("WARN", priority)
        self.assertEqual("sriov-rt-agent:rt-1", message["publisher_id"])
        self.assertEqual("sriov_rt.latency.withdrawn", message["event_type"])
        self.assertEqual(
            {
                "host": "rt-1",
                "node": "node-1",
                "reason": WHY.message,
                "codes": ["latency_withdrawn"],
                "instances": [
                    {"uuid": A, "realtime": True, "max_latency_us": 30},
                    {"uuid": B, "realtime": True, "max_latency_us": None},
                ],
                "instances_unknown": None,
            },
            message["payload"],
        )

    def test_the_culprit_is_sent_and_logged(self):
        named = Culprit("thread", "hog:9", 2, 433, 420, "timerlat")
        found = dataclasses.replace(self.withdrawal(), culprit=named)
        self.assertEqual("hog:9", found.payload()["culprit"]["name"])
        with self.assertLogs(withdrawal.LOG) as logged:
            found.log()
        self.assertIn(
            "; thread hog:9 had the CPU for 420 µs (timerlat)",
            logged.output[0],
        )

    def test_each_is_sent_once_and_in_order(self):
        self.notifications(driver=["test"])
        notifying = withdrawal.Notifying(self.notifier(), fakes.Crash())
        for number in range(withdrawal.MOST_WAITING + 2):
            notifying.put(Withdrawal(f"rt-{number}", "n", (WHY,), (LATENT,)))
        notifying.worker.tick()
        notifying.worker.tick()
        hosts = [
            each[1]["payload"]["host"] for each in _impl_test.NOTIFICATIONS
        ]
        # The message queue was down for so long that two are lost.
        wanted = [f"rt-{n + 2}" for n in range(withdrawal.MOST_WAITING)]
        self.assertEqual(wanted, hosts)

    def test_over_a_message_queue_to_who_listens(self):
        self.notifications(driver=["messagingv2"])
        heard = []

        class Endpoint:
            def warn(self, ctxt, publisher_id, event_type, payload, metadata):
                heard.append((publisher_id, event_type, payload["host"]))

        notifier = self.notifier()
        listener = oslo_messaging.get_notification_listener(
            notifier.transport,
            [oslo_messaging.Target(topic="notifications")],
            [Endpoint()],
            executor="threading",
        )
        listener.start()
        self.addCleanup(listener.wait)
        self.addCleanup(listener.stop)
        notifying = withdrawal.Notifying(notifier, fakes.Crash())
        notifying.put(self.withdrawal())
        notifying.worker.tick()
        fakes.wait_for(lambda: heard)
        self.assertEqual(
            [("sriov-rt-agent:rt-1", withdrawal.EVENT, "rt-1")], heard
        )

    def test_the_agents_queue_unless_another_is_named(self):
        self.set("sriov_rt", transport_url="fake://agents/")
        self.notifications(driver=["noop"])
        url = self.notifier().transport._driver._url  # noqa: SLF001
        self.assertEqual("agents", url.hosts[0].hostname)
        self.notifications(transport_url="fake://others/")
        url = self.notifier().transport._driver._url  # noqa: SLF001
        self.assertEqual("others", url.hosts[0].hostname)

    def test_a_queue_that_cannot_be_is_refused_at_the_start(self):
        self.notifications(driver=["noop"], transport_url="pigeon://post")
        with self.assertRaises(oslo_messaging.MessagingException):
            self.notifier()


class KeepTest(trees.TreeTest):
    """Withdrawn is withdrawn, until the host is measured again."""

    RUNTIME = "proc/sys/kernel/sched_rt_runtime_us"

    def setUp(self):
        super().setUp()
        self.keeper = withdrawal.Keeper()

    def observe(self):
        return latency.observe(self.root, keep=self.keeper.keep).certificate

    def look(self):
        return self.observe().withdrawn

    def test_a_condition_that_is_put_back_counts_no_more(self):
        self.assertEqual("", self.look())
        self.assertFalse(
            (self.tree.path / certificate.WITHDRAWAL_PATH).exists()
        )
        self.tree.write(self.RUNTIME, "950000\n")
        why = "sched_rt_runtime_us changed from '-1' to '950000'"
        self.assertEqual(why, self.look())
        self.tree.write(self.RUNTIME, "-1\n")
        for _ in range(3):
            self.assertEqual(why, self.look())
        # Nor for another reader, and after the next start of the agent.
        self.assertEqual(
            why, latency.observe(self.tree.root).certificate.withdrawn
        )

    def test_it_is_on_the_disk_before_it_is_reported(self):
        """A power cut would let the certificate count again."""
        self.tree.write(self.RUNTIME, "950000\n")
        with mock.patch("os.fsync", wraps=os.fsync) as synced:
            self.look()
        synced.assert_called()

    def test_a_condition_that_flaps_is_counted(self):
        for _ in range(100):
            self.tree.write(self.RUNTIME, "950000\n")
            self.look()
            self.tree.write(self.RUNTIME, "-1\n")
            said = self.look()
        self.assertEqual(
            "sched_rt_runtime_us changed from '-1' to '950000' (100×)", said
        )

    def test_a_new_measurement_ends_it(self):
        self.tree.write(self.RUNTIME, "950000\n")
        self.look()
        self.tree.write(self.RUNTIME, "-1\n")
        self.assertGreater(latency.withdrawn_at(self.root), 0)
        made = dataclasses.replace(trees.CERTIFICATE, issued_at=1788000001.0)
        verify_certificate.write(made, self.tree.path)
        self.assertEqual("", self.look())
        self.assertEqual(0.0, latency.withdrawn_at(self.root))

    def test_what_cannot_be_written_is_said_once(self):
        self.tree.write(self.RUNTIME, "950000\n")
        self.tree.write("var/lib/sriov-rt")
        with self.assertLogs("sriov_rt.agent.withdrawal", "ERROR") as logs:
            said = [self.look() for _ in range(3)]
            self.tree.write(self.RUNTIME, "-1\n")
            said.append(self.look())
        why = "sched_rt_runtime_us changed from '-1' to '950000'"
        self.assertEqual([why] * 4, said)
        self.assertEqual(1, len(logs.output))
        self.assertIn("cannot be written", logs.output[0])
        # It is written as soon as that can be done.
        (self.tree.path / "var/lib/sriov-rt").unlink()
        self.assertEqual(why, self.look())
        self.assertEqual(
            why, latency.observe(self.tree.root).certificate.withdrawn
        )

    def test_nothing_to_keep(self):
        self.tree.remove(certificate.PATH)
        self.assertIsNone(self.observe())
        self.tree.write(certificate.PATH, "{")
        self.assertIsInstance(self.observe(), Unknown)
        self.assertFalse(
            (self.tree.path / certificate.WITHDRAWAL_PATH).exists()
        )
