# SPDX-License-Identifier: Apache-2.0

import dataclasses
import unittest
from unittest import mock

from sriov_rt import facts
from sriov_rt.cmd import agents
from sriov_rt.cmd import cloud
from sriov_rt.cmd import collect
from sriov_rt.cmd import fleet
from sriov_rt.cmd.command import Caller
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from tests.unit import builders
from tests.unit.cmd import command_lines

NOW = 1_790_000_000.0
USUAL = {
    "hold": None,
    "microcode": "0x500320a",
    "tuned_profile": "realtime-virtual-host",
}
RELEASE = "6.1.0-44-rt-amd64"


def certificate(**changes):
    found = facts.LatencyCertificate(
        19, RELEASE, NOW + 27 * 86400, issued_at=NOW - 3 * 86400
    )
    return {"certificate": dataclasses.replace(found, **changes)}


def host(name, maintenance=(), **parts):
    parts = {"latency": certificate(), **parts}
    found = builders.realtime_host(
        name, maintenance={**USUAL, **dict(maintenance)}, **parts
    )
    return dataclasses.replace(found, version="1.0.0")


def row(found):
    return dict(zip(fleet.COLUMNS, fleet.of(found, NOW).row(), strict=True))


class UpkeepTest(unittest.TestCase):
    def test_a_host(self):
        self.assertEqual(
            {
                "Differs": "",
                "Kernel": RELEASE,
                "Microcode": "0x500320a",
                "Profile": "realtime-virtual-host",
                "Bound": "19 µs",
                "Age": "3d",
                "Expires": "27d",
                "Hold": None,
                "Boot owed": None,
            },
            row(host("rt-1")),
        )

    def test_what_the_certificate_is(self):
        for latency, expected in (
            (certificate(withdrawn="the kernel"), "withdrawn"),
            (certificate(expires_at=NOW - 1), "expired"),
            ({"certificate": None}, None),
            ({"certificate": Unknown("EIO")}, None),
        ):
            with self.subTest(latency):
                found = row(host("rt-1", latency=latency))
                self.assertEqual(expected, found["Expires"])

    def test_an_older_agent_reports_less(self):
        found = row(
            host(
                "rt-1",
                dict.fromkeys(USUAL, NOT_REPORTED),
                latency=certificate(issued_at=None),
            )
        )
        for name in ("Microcode", "Profile", "Hold", "Boot owed", "Age"):
            self.assertIsNone(found[name], name)

    def test_what_is_unknown(self):
        found = row(host("rt-1", dict.fromkeys(USUAL, Unknown("EIO"))))
        for name in ("Microcode", "Profile", "Hold"):
            self.assertEqual("?", found[name], name)

    def test_names_of_another_host_steer_no_terminal(self):
        hold = facts.HostHold("a\x1b[2J", "b", NOW)
        owed = {"hold": hold, "boot_owed": "\x1b[2J"}
        found = row(host("rt-1", owed))
        self.assertEqual("a\\x1b[2J: b", found["Hold"])
        self.assertEqual("\\x1b[2J", found["Boot owed"])


class ComparedTest(unittest.TestCase):
    def test_a_host_differs_in_what_most_have_otherwise(self):
        hold = facts.HostHold("alice", "kernel", NOW)
        hosts = [
            host("rt-1"),
            host("rt-2", {"microcode": "0x1", "hold": hold}),
            host("rt-3", kernel={"release": "6.12"}),
        ]
        found = fleet.compared(fleet.of(each, NOW) for each in hosts)
        self.assertEqual(
            [(), ("microcode", "hold"), ("kernel",)],
            [each.differs for each in found],
        )

    def test_nobody(self):
        self.assertEqual([], fleet.compared(()))


class ListTest(unittest.TestCase):
    def run_list(self, hosts, *words):
        candidates = [
            Candidate(
                name,
                found and facts.decisive(found),
                1.0,
                300.0,
                "1.0.0",
                found,
            )
            for name, found in hosts.items()
        ]
        command = agents.List(Caller())
        with (
            mock.patch.object(collect, "collect", return_value=candidates),
            mock.patch.object(cloud, "has_credentials", return_value=False),
            mock.patch("time.time", return_value=NOW),
        ):
            args = command_lines.parse(["agent", "list", *words])
            return command.run(args)

    def test_those_that_differ_most_come_first(self):
        hosts = {f"rt-{n}": host(f"rt-{n}") for n in range(4)}
        hosts["rt-7"] = host("rt-7", {"microcode": "0x1"})
        hosts["rt-8"] = None
        hosts["rt-9"] = host(
            "rt-9", {"microcode": "0x1"}, kernel={"release": "6.12"}
        )
        found = self.run_list(hosts, "--long")
        self.assertEqual(
            ["rt-9", "rt-7", "rt-0", "rt-1", "rt-2", "rt-3", "rt-8"],
            [each[0] for each in found.rows],
        )
        self.assertEqual(
            ["kernel", "microcode"],
            found.document[0]["maintenance"]["differs"],
        )
        self.assertIsNone(found.document[-1]["maintenance"])
        self.assertIn("Boot owed", found.shown)
        # Most hosts are most of all, and not of those that are listed.
        found = self.run_list(hosts, "--long", "--host", "rt-9")
        self.assertEqual(
            ["kernel", "microcode"],
            found.document[0]["maintenance"]["differs"],
        )

    def test_without_it_the_list_is_as_before(self):
        found = self.run_list({"rt-1": host("rt-1")})
        self.assertNotIn("Kernel", found.shown)
        self.assertIsNone(found.document[0]["maintenance"])
