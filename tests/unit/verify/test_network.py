# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import pathlib
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from sriov_rt.verify import iperf3
from sriov_rt.verify import netperf
from sriov_rt.verify import network
from sriov_rt.verify import pktgen
from sriov_rt.verify import sockperf
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed
from tests.periodic import slow
from tests.unit.verify import recorded
from tests.unit.verify.programs import ProgramTest

NETPERF = recorded.read("netperf-2.7.1.txt")
IPERF3 = recorded.read("iperf3-3.12.json")
SOCKPERF = recorded.read("sockperf-3.7.txt")

#: An interface's file of pktgen, as the kernel's documentation shows it.
PKTGEN = b"""Params: count 0  min_pkt_size: 60  max_pkt_size: 60
     frags: 0  delay: 0  clone_skb: 0  ifname: eth1
Current:
     pkts-sofar: 100000  errors: 0
Result: OK: 166218(c166218+d0) usec, 100000 (60byte,0frags)
  601617pps 288Mb/sec (288776160bps) errors: 0
"""

HERE = pathlib.Path(recorded.__file__).parent / "recorded"


class Iperf3Test(unittest.TestCase):
    def test_recorded(self):
        version, bits, error = iperf3.parse(IPERF3, 2)
        self.assertEqual("iperf 3.12", version)
        # Of two seconds, by half their difference.
        self.assertEqual(0.82, round(error / 1e9, 2))
        self.assertEqual(2.05, round(bits / 1e9, 2))

    def test_a_later_version(self):
        later = recorded.read("iperf3-3.18.json")
        version, bits, error = iperf3.parse(later, 2)
        self.assertEqual("iperf 3.18", version)
        self.assertEqual(5.5, round(bits / 1e9, 1))
        self.assertEqual(0.54, round(error / 1e9, 2))

    def test_an_error_whose_exit_code_is_0(self):
        for name in ("iperf3-3.12-error.json", "iperf3-3.18-error.json"):
            with (
                self.subTest(name),
                self.assertRaisesRegex(RunFailed, "Connection refused"),
            ):
                iperf3.parse(recorded.read(name), 2)

    def test_a_run_that_ended_early(self):
        with self.assertRaisesRegex(OutputInvalid, "2 s of 20 s"):
            iperf3.parse(IPERF3, 20)

    def test_garbled(self):
        good = json.loads(IPERF3)
        for document in (
            b"",
            b"{",
            b"[]",
            b"\xff",
            b"[" * 10**5,
            b" " * (iperf3.MAX_OUTPUT + 1),
            json.dumps(good | {"end": None}).encode(),
            json.dumps(good | {"start": {}}).encode(),
            json.dumps(good | {"end": {"sum_received": {}}}).encode(),
            IPERF3.replace(b'"bits_per_second": 2052', b'"x": 2052'),
            IPERF3.replace(b'"seconds": 2.063012', b'"seconds": NaN'),
            # Of a server that went away: no JSON.
            IPERF3.replace(b'"seconds": 2.063012', b'"seconds": -nan'),
        ):
            with (
                self.subTest(document[:20]),
                self.assertRaises(OutputInvalid),
            ):
                iperf3.parse(document, 2)

    @hypothesis.settings(deadline=None)
    @hypothesis.given(st.integers(0, len(IPERF3) - 3))
    def test_cut_anywhere(self, end):
        with self.assertRaises(OutputInvalid):
            iperf3.parse(IPERF3[:end], 2)

    def test_command_is_the_published_one(self):
        self.assertEqual(
            "iperf3 --client=10.0.0.1 --port=5201 --omit=3 --time=20 --json",
            " ".join(iperf3.command("10.0.0.1", 5201, 20, reverse=False)),
        )


class SockperfTest(unittest.TestCase):
    def test_recorded(self):
        version, rate, error, p99_us = sockperf.parse([SOCKPERF], 2)
        self.assertEqual("3.7-no.git", version)
        self.assertEqual(1106, round(error))
        self.assertEqual((3823, 1069.74), (round(rate), p99_us))

    def test_later_versions_say_more_of_the_spread(self):
        later = recorded.read("sockperf-3.10.txt")
        version, rate, error, p99_us = sockperf.parse([later], 2)
        self.assertEqual("3.10-no.git", version)
        self.assertEqual((83063, 8.85), (round(rate), p99_us))
        self.assertEqual(2270, round(error))

    def test_a_version_with_other_statistics(self):
        old = SOCKPERF.replace(b"3.7-no.git", b"3.5-no.git").replace(
            b"avg-latency=130.758", b"avg-lat=130.758"
        )
        with self.assertRaisesRegex(RunFailed, "3.5-no.git.*sockperf 3.7"):
            sockperf.parse([SOCKPERF, old], 2)

    def test_an_error_whose_exit_code_is_0(self):
        output = (
            b"sockperf: \x1b[2;35m== version #3.10-no.git == \x1b[0m\n"
            b"sockperf: ERROR: Can`t connect socket "
            b"(errno=111 Connection refused)\n"
        )
        with self.assertRaisesRegex(RunFailed, "111 Connection refused"):
            sockperf.parse([SOCKPERF, output], 2)

    def test_streams_add_up(self):
        _, one, error, p99_us = sockperf.parse([SOCKPERF], 2)
        _, three, whole, worst = sockperf.parse([SOCKPERF] * 3, 2)
        self.assertEqual((3 * one, p99_us), (three, worst))
        self.assertAlmostEqual(3**0.5 * error, whole)

    def test_a_run_that_ended_early(self):
        with self.assertRaisesRegex(OutputInvalid, "messages in 1.5 s"):
            sockperf.parse([SOCKPERF, SOCKPERF], 20)

    def test_garbled(self):
        for output in (
            b"",
            b"\xff" * 100,
            b"x" * (sockperf.MAX_OUTPUT + 1),
            SOCKPERF.replace(b"percentile 99.000 = 1069.740", b""),
            SOCKPERF.replace(b"Messages=5907", b"Messages=0"),
            SOCKPERF.replace(b"RunTime=1.545", b"RunTime=0.000"),
            SOCKPERF.replace(b"Valid", b"Invalid"),
            # With --full-rtt, which is not of our command line.
            SOCKPERF.replace(b"avg-latency", b"avg-rtt"),
        ):
            with self.subTest(output[:20]), self.assertRaises(OutputInvalid):
                sockperf.parse([SOCKPERF, output], 1)

    @hypothesis.settings(deadline=None)
    @hypothesis.given(st.binary(max_size=200))
    def test_anything(self, output):
        with self.assertRaises(OutputInvalid):
            sockperf.parse([output], 2)


class NetperfTest(unittest.TestCase):
    def test_recorded(self):
        self.assertEqual(13908.45, netperf.parse([NETPERF], 2))
        self.assertEqual(3 * 13908.45, netperf.parse([NETPERF] * 3, 2))

    def test_results_on_the_way(self):
        """A netperf that was built with its demo mode says each second's."""
        interim = (
            b"Interim result: 9876.54 Trans/s over 1.000 seconds ending at "
            b"1700000000.000\n"
        )
        self.assertEqual(13908.45, netperf.parse([interim * 2 + NETPERF], 2))

    def test_version(self):
        self.assertEqual("2.7.1", netperf.version(b"Netperf version 2.7.1\n"))
        self.assertEqual("", netperf.version(b"netperf: invalid option"))

    def test_garbled(self):
        for output in (
            b"",
            b"\xff" * 100,
            b"x" * (netperf.MAX_OUTPUT + 1),
            b"16384  131072 \n",
            b"THROUGHPUT=18032.75\n",
            NETPERF.replace(b"13908.45", b"0.00"),
            NETPERF.replace(b"13908.45", b"nan"),
            NETPERF.replace(b" 2.00 ", b" 1.00 "),
            NETPERF.replace(b" 1        1 ", b" 64       64"),
        ):
            with self.subTest(output[:20]), self.assertRaises(OutputInvalid):
                netperf.parse([NETPERF, output], 2)

    @hypothesis.settings(deadline=None)
    @hypothesis.given(st.binary(max_size=200))
    def test_anything(self, output):
        with self.assertRaises(OutputInvalid):
            netperf.parse([output], 2)


class PktgenTest(unittest.TestCase):
    def test_recorded(self):
        self.assertEqual((100000, 601617.0), pktgen.parse(PKTGEN))

    def test_refused(self):
        for output, error in (
            (b"", OutputInvalid),
            (b"Params:\n", OutputInvalid),
            (b"Result: No transmit: no device\n", RunFailed),
            (PKTGEN.replace(b", 100000 (", b", 0 ("), RunFailed),
            (PKTGEN.replace(b"(60byte", b"(1500byte"), OutputInvalid),
            (PKTGEN.replace(b"601617pps", b"pps"), RunFailed),
        ):
            with self.subTest(output[-40:]), self.assertRaises(error):
                pktgen.parse(output)

    def test_counters(self):
        text = (
            b"Inter-|   Receive\n face |bytes packets errs\n"
            b"    lo: 100 2 0 0\n  eth1:12345 678 0 0 0 0\n"
        )
        self.assertEqual(678, pktgen.received(text, "eth1"))
        with self.assertRaises(OutputInvalid):
            pktgen.received(text, "eth")


class RunTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.program("iperf3", f"cat {HERE}/iperf3-3.12.json")
        self.program("sockperf", f"cat {HERE}/sockperf-3.7.txt")
        self.results = network.Results(self.place / "results")
        self.cells = list(
            network.cells("vf", (1, 4), 2, onload=False, packets=False)
        )

    def run_it(self, resume=False):
        run = network.NetworkRun(
            self.root, network.Ends("192.0.2.1"), self.results
        )
        return run.run(self.cells, resume=resume)

    @slow
    def test_measured_and_kept(self):
        found, interrupted = self.run_it()
        self.assertFalse(interrupted)
        self.assertEqual([""] * 4, [each.problem for each in found])
        self.assertEqual(
            sorted(each.cell.file for each in found),
            sorted(each.name for each in self.results.directory.iterdir()),
        )
        self.assertEqual(
            4 * round(found[2].figure), 4 * round(found[3].figure / 4)
        )
        self.assertEqual(len(found), len(self.results.all()))

    def test_what_failed_is_measured_again(self):
        self.program("sockperf", "echo 'sockperf: ERROR' >&2; exit 1")
        found, _ = self.run_it()
        self.assertEqual(
            ["", "", *["sockperf failed: sockperf: ERROR"] * 2],
            [each.problem for each in found],
        )
        self.assertEqual(2, len(list(network.TABLE.rows(found))))
        self.program("sockperf", f"cat {HERE}/sockperf-3.7.txt")
        self.program("iperf3", "exit 1")
        found, _ = self.run_it(resume=True)
        self.assertEqual([""] * 4, [each.problem for each in found])

    def netperf(self, code=0):
        self.program(
            "netperf",
            'case "$*" in -V) echo "Netperf version 2.7.1";;\n'
            "*'-p 5330 '*) cat "
            f"{HERE}/netperf-2.7.1.txt; exit {code};;\n*) exit 1;; esac",
        )

    def test_netperf_where_both_ends_have_it(self):
        self.netperf()
        found, _ = self.run_it()
        self.assertEqual(
            ["", "", "netperf", "netperf"], [each.tool for each in found]
        )
        self.assertEqual([""] * 4, [each.problem for each in found])
        self.assertEqual("2.7.1", found[2].version)
        self.assertEqual((13908.45, None), (found[2].figure, found[2].p99_us))
        self.assertAlmostEqual(4 * 13908.45, found[3].figure)
        self.assertEqual(found, self.results_in_order(found))

    def results_in_order(self, found):
        kept = {each.cell: each for each in self.results.all()}
        return [kept[each.cell] for each in found]

    def test_sockperf_where_the_server_has_no_netperf(self):
        self.netperf(code=255)
        found, _ = self.run_it()
        self.assertEqual([""] * 4, [each.tool for each in found])
        self.assertEqual([""] * 4, [each.problem for each in found])
        self.assertTrue(found[2].command.startswith("sockperf"))
        # Nor where a firewall drops what it says to it.
        self.program("netperf", "exec sleep 60")
        with mock.patch.object(network, "_KNOCK_S", 0.1):
            found, _ = self.run_it()
        self.assertEqual([""] * 4, [each.tool for each in found])

    def test_what_another_program_measured_is_measured_again(self):
        before, _ = self.run_it()
        self.netperf()
        after, _ = self.run_it(resume=True)
        self.assertEqual(before[:2], after[:2])
        self.assertEqual("netperf", after[2].tool)

    def test_servers_of_netperf(self):
        self.program("netserver", "")
        found = [
            " ".join(each)
            for each in network.servers("192.0.2.1", 5201, 64, onload=True)
            if netperf.SERVER in each
        ]
        self.assertEqual(
            [
                "netserver -D -N -4 -L 192.0.2.1 -p 5330",
                "onload --profile=latency netserver -D -N -4 -L 192.0.2.1 "
                "-p 5331",
            ],
            found,
        )
        # No port is another server's.
        ports = [
            int(each[each.index("-p") + 1])
            for each in network.servers("192.0.2.1", 5201, 64, onload=True)
            if "-p" in each
        ]
        self.assertEqual(len(ports), len(set(ports)))

    def test_what_iperf3_says_in_its_json(self):
        for name, code in (("3.12", 0), ("3.18", 1)):
            path = f"{HERE}/iperf3-{name}-error.json"
            self.program("iperf3", f"cat {path}; exit {code}")
            with self.subTest(name):
                found, _ = self.run_it()
                self.assertRegex(
                    found[0].problem, "^iperf3 failed: .*Connection refused"
                )

    def test_interrupted(self):
        with mock.patch.object(
            network.NetworkRun, "_output", side_effect=KeyboardInterrupt
        ):
            self.assertEqual(([], True), self.run_it())

    def test_a_server_that_cannot_run(self):
        self.program("iperf3", "exit 1")
        serving = network.serving([("iperf3", "--server")])
        with self.assertRaisesRegex(RunFailed, "is its port in use"):
            serving.__enter__()

    def test_foreign_files_are_no_results(self):
        self.results.directory.mkdir()
        for number, text in enumerate(("", "{", "[]", "x" * 10**6)):
            path = self.results.directory / f"network-{number}.json"
            path.write_text(text)
        self.assertEqual([], self.results.all())


class NamespaceTest(ProgramTest):
    def test_a_container_has_none_with_a_name(self):
        entered = self.place / "entered"
        self.program(
            "nsenter",
            f'echo "$1" >>{entered}\n'
            f'case "$*" in *--client=*) cat {HERE}/iperf3-3.12.json;;\n'
            "*' ip '*) exit 1;;\n"
            "*) exec sleep 60;; esac",
        )
        cell = network.Cell("container", network.SEND, 1, 2)
        found, _ = network.NetworkRun(
            self.root,
            network.Ends("192.0.2.2", namespace="pid:4711", server="b"),
            network.Results(self.place / "results"),
        ).run([cell], resume=False)
        self.assertEqual([""], [each.problem for each in found])
        self.assertEqual(
            {"--net=/proc/4711/ns/net", "--net=/run/netns/b"},
            set(entered.read_text().split()),
        )


class WayTest(ProgramTest):
    def setUp(self):
        super().setUp()
        # What it says of an address of this namespace and of another's.
        self.program(
            "ip",
            """case "$*" in
            "-json route get 127.0.0.1") echo '[{"type":"local"}]';;
            "-json route get 192.0.2.9") echo 'RTNETLINK: x' >&2; exit 2;;
            *) echo '[{"dst":"192.0.2.1","dev":"eth0"}]';;
            esac""",
        )
        self.program(
            "nsenter",
            """test "$1 $2" = "--net=/run/netns/a --" || exit 1
            test "$7" = 192.0.2.1 && echo '[{"type":"local"}]'""",
        )

    def test_whose_the_address_is(self):
        for ends, way in (
            (network.Ends("192.0.2.1"), "two hosts"),
            (network.Ends("127.0.0.1"), "one host"),
            (network.Ends("192.0.2.1", namespace="a"), "one host"),
            (
                network.Ends("127.0.0.1", namespace="a"),
                "namespaces of one host",
            ),
            (network.Ends("192.0.2.2", namespace="a"), "two hosts"),
            (
                network.Ends("192.0.2.2", namespace="a", server="b"),
                "namespaces of one host",
            ),
            # No route: what measures says so.
            (network.Ends("192.0.2.9"), "two hosts"),
        ):
            with self.subTest(ends):
                self.assertEqual(way, network.way(ends))

    def test_the_loopback_is_no_way_of_a_seed(self):
        self.program("iperf3", f"cat {HERE}/iperf3-3.12.json")
        cell = network.Cell("host", network.SEND, 1, 2)
        found, _ = network.NetworkRun(
            self.root,
            network.Ends("127.0.0.1"),
            network.Results(self.place / "results"),
        ).run([cell], resume=False)
        ((*_, same),) = network.TABLE.rows(found)
        self.assertEqual("no: one host", same)
        self.assertIn(
            "1 runs between one host",
            next(iter(network.planned([cell], network.Ends("127.0.0.1")))),
        )


class TableTest(unittest.TestCase):
    def measured(self, figure, way="two hosts", **cell):
        cell = network.Cell(
            **{"name": "vf", "test": "send", "streams": 1, "duration_s": 20}
            | cell
        )
        return network.Measured(cell, way, "6.1", "1", "x", 0.0, False, figure)

    def test_beside_what_was_published(self):
        kernel = self.measured(1000.0, test="requests", streams=36)
        rows = list(
            network.TABLE.rows(
                [
                    self.measured(9.42e9, name="host"),
                    self.measured(9.40e9),
                    self.measured(9.40e9, test="receive", duration_s=5),
                    self.measured(
                        1.4e6, way="namespaces of one host", test="packets"
                    ),
                    kernel,
                    dataclasses.replace(
                        kernel,
                        cell=dataclasses.replace(kernel.cell, onload=True),
                        figure=14000.0,
                    ),
                ]
            )
        )
        self.assertEqual(
            [
                ("9.42 Gb/s", "-", "yes"),
                ("9.40 Gb/s", "1.00 × host", "yes"),
                ("9.40 Gb/s", "-", "no: 5 s, not 20 s"),
                ("1000/s", "-", "no: sockperf for netperf"),
                ("14000/s", "14.00 × kernel", "no: sockperf for netperf"),
                ("1.40 Mpps, 0.00 in", "-", "no: namespaces of one host"),
            ],
            [(row[3], row[5], row[7]) for row in rows],
        )
        self.assertEqual("15 × kernel", rows[-2][6])

    def test_netperf_is_the_published_way(self):
        kernel = dataclasses.replace(
            self.measured(1000.0, test="requests"), tool="netperf"
        )
        onload = dataclasses.replace(
            kernel,
            cell=dataclasses.replace(kernel.cell, onload=True),
            figure=8000.0,
        )
        # Two programs are not compared with each other.
        sockperf_s = dataclasses.replace(onload, tool="")
        alone = dataclasses.replace(kernel, way="one host")
        self.assertEqual(
            [
                ("-", "yes"),
                ("8.00 × kernel", "yes"),
                ("-", "no: sockperf for netperf"),
            ],
            [
                (row[5], row[7])
                for row in network.TABLE.rows([kernel, onload, sockperf_s])
            ],
        )
        self.assertEqual("no: one host", network.same_way(alone))
