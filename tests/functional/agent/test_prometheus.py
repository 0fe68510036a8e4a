# SPDX-License-Identifier: Apache-2.0

"""Prometheus' own programs read the endpoints and the alert rules."""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import yaml

from sriov_rt.agent import metrics
from sriov_rt.facts import HeldVf
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import QuarantinedPort
from sriov_rt.facts.guests import AuditFacts
from sriov_rt.facts.guests import Drift
from sriov_rt.host import port_counts
from sriov_rt.host.root import Root
from tests import periodic
from tests.functional.agent import agent_life
from tests.unit import builders

PROMETHEUS = pathlib.Path(__file__).parents[3] / "etc/prometheus"
RULES = PROMETHEUS / "sriov-rt.rules.yml"
BOARD = PROMETHEUS.with_name("grafana") / "sriov-rt.json"

#: A real agent that failed once, died and started again: agent_life.py.
RECORDED = pathlib.Path(__file__).with_name("agent_life.yaml")

DRIFT = Drift("a", "guest_thread_moved", "vcpu 0", "x; y", "y", 1.0)
CERTIFICATE = LatencyCertificate(25, "6.1", 2000.0, withdrawn=("why",))

UP = 'up{job="sriov-rt"} 1x40'

#: Series over 20 minutes, and the alerts that they raise then.
CASES = {
    "SriovRtAgentDown": 'up{job="sriov-rt"} 0x40',
    "SriovRtNoAgents": 'up{job="others"} 1x40',
    "SriovRtHostsMissing": (UP, "sriov_rt:hosts:expected 2x40"),
    "SriovRtFactsMissing": UP,
    "SriovRtHostNotReady": 'sriov_rt_host_ready{intended="yes"} 0x40',
    "SriovRtFactsStale": "sriov_rt_facts_observed_timestamp_seconds 0x40",
    "SriovRtGuestDrifted": 'sriov_rt_guest_drifts{code="c"} 2x40',
    "SriovRtPortQuarantined": 'sriov_rt_quarantined_ports{parent="p"} 1x40',
    "SriovRtVfQuarantined": (
        'sriov_rt_held_vfs{parent="p", holder="pod", state="quarantined"} 1x40'
    ),
    "SriovRtPlugsFail": (
        'sriov_rt_port_operations_total{operation="plug", result="Busy"} '
        "0+1x40"
    ),
    "SriovRtRecoveryFails": (
        'sriov_rt_port_operations_total{operation="recover", '
        'result="failed"} 0+1x40'
    ),
    "SriovRtAuditUnknown": "sriov_rt_audit_known 0x40",
    "SriovRtCertificateWithdrawn": "sriov_rt_certificate_withdrawn 1x40",
    "SriovRtCertificateExpires": (
        "sriov_rt_certificate_expiry_timestamp_seconds 0x40"
    ),
}
#: The same while all is well.
GOOD = {
    "SriovRtAgentDown": UP,
    "SriovRtNoAgents": UP,
    "SriovRtHostsMissing": (UP, "sriov_rt:hosts:expected 1x40"),
    "SriovRtFactsMissing": (
        UP,
        'sriov_rt_facts_observed_timestamp_seconds{job="sriov-rt"} 0+60x40',
    ),
    # A host of ordinary guests alone.
    "SriovRtHostNotReady": 'sriov_rt_host_ready{intended="no"} 0x40',
    "SriovRtFactsStale": ("sriov_rt_facts_observed_timestamp_seconds 0+60x40"),
    "SriovRtPlugsFail": (
        'sriov_rt_port_operations_total{operation="plug", result="ok"} 0+1x40'
    ),
    "SriovRtGuestDrifted": 'sriov_rt_guest_drifts{code="c"} 0x40',
    "SriovRtAuditUnknown": "sriov_rt_audit_known 1x40",
}

#: Alerts of what a host reports: a value that raises one, and one of a host
#: that is mended.
LASTING = (
    ("SriovRtGuestDrifted", 'sriov_rt_guest_drifts{code="c"}', 1, 0),
    ("SriovRtPortQuarantined", 'sriov_rt_quarantined_ports{parent="p"}', 1, 0),
    (
        "SriovRtVfQuarantined",
        'sriov_rt_held_vfs{parent="p", holder="pod", state="quarantined"}',
        *(1, 0),
    ),
    ("SriovRtCertificateWithdrawn", "sriov_rt_certificate_withdrawn", 1, 0),
    (
        "SriovRtCertificateExpires",
        "sriov_rt_certificate_expiry_timestamp_seconds",
        *(0, 9_999_999),
    ),
)

#: Of the recording: seconds after which each alert is looked at, and whether
#: it fires. The port fails at 30, the agent dies at 90 and starts at 330.
TIMELINE = (
    ("SriovRtCertificateWithdrawn", ((60, 1), (200, 1), (325, 1), (440, 1))),
    ("SriovRtPlugsFail", ((25, 0), (45, 1), (85, 1))),
    ("SriovRtAgentDown", ((85, 0), (150, 0), (240, 1), (325, 1), (345, 0))),
    ("SriovRtFactsMissing", ((200, 0), (445, 0))),
    ("SriovRtFactsStale", ((85, 0), (445, 0))),
)


def host():
    port = QuarantinedPort("p1", "a", "eth1", None, "it is away")
    facts = builders.realtime_host(
        latency={"certificate": CERTIFICATE},
        memory={"ksm_run": 1},
        vifs={
            "pools": {"physnet1": ("eth1",)},
            "quarantined": (port,),
            "holders": (
                HeldVf("0000:01:10.1", "eth1", "pod", "p", "in use", ""),
            ),
        },
    )
    return dataclasses.replace(facts, audit=AuditFacts((DRIFT, DRIFT)))


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@unittest.skipUnless(
    shutil.which("prometheus") and shutil.which("promtool"),
    "prometheus is not installed",
)
class PrometheusTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)

    def promtool(self, *words, text=None):
        done = subprocess.run(
            ("promtool", *words),
            capture_output=True,
            text=True,
            input=text,
            timeout=60,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def run_rules(self, tests, interval):
        """Run the tests of rules in steps of an interval."""
        file = self.path / "test.yml"
        document = {
            "rule_files": [str(RULES)],
            "evaluation_interval": interval,
            "tests": tests,
        }
        file.write_text(yaml.safe_dump(document))
        self.promtool("test", "rules", str(file))

    def test_the_rules_raise_their_alerts(self):
        self.promtool(
            "check", "rules", *map(str, PROMETHEUS.glob("*.rules.*"))
        )
        rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
        alerts = {each["alert"] for each in rules if "alert" in each}
        self.assertEqual(alerts, CASES.keys())
        # Two hours in a minute's steps, so that the longest 'for' is over.
        tests = [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values.replace("x40", "x120")}
                    for each in ([series] if type(series) is str else series)
                    for name, _, values in [each.rpartition(" ")]
                ],
                "promql_expr_test": [_fires(alert, "110m", is_raised)],
            }
            for cases, is_raised in ((CASES, True), (GOOD, False))
            for alert, series in cases.items()
        ]
        self.run_rules(tests, "1m")

    def test_a_recorded_agent_that_fails_once_dies_and_starts_again(self):
        recorded = yaml.safe_load(RECORDED.read_text())
        step = f"{recorded['step_s']}s"
        expected = [
            _fires(alert, f"{at}s", fires)
            for alert, moments in TIMELINE
            for at, fires in moments
        ]
        one = {
            "interval": step,
            "input_series": recorded["series"],
            "promql_expr_test": expected,
        }
        self.run_rules([one], step)

    def test_alerts_stand_while_the_agent_is_dead_and_end_with_their_cause(
        self,
    ):
        tests = []
        labels = 'job="sriov-rt", instance="a"'
        facts = f"sriov_rt_facts_observed_timestamp_seconds{{{labels}}}"
        for alert, metric, bad, good in LASTING:
            name, _, others = metric.partition("{")
            series = f"{name}{{{labels}, {others or '}'}".replace(", }", "}")
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [
                        {"series": each, "values": values}
                        for each, values in (
                            (f"up{{{labels}}}", "1x70 0x10 1x70"),
                            (facts, "0+60x70 _x11 4920+60x70"),
                            (series, f"{bad}x70 _x11 {good}x70"),
                        )
                    ],
                    "promql_expr_test": [
                        _fires(alert, f"{at}m", is_raised)
                        for at, is_raised in ((68, 1), (78, 1), (140, 0))
                    ],
                }
            )
        self.run_rules(tests, "1m")

    def test_what_an_operator_would_miss(self):
        """Series of hosts in trouble that fired nothing, or wrongly."""
        labels = '{job="sriov-rt", instance="a"}'
        facts = f"sriov_rt_facts_observed_timestamp_seconds{labels}"
        up = f"up{labels}"
        failed = (
            'sriov_rt_port_operations_total{job="sriov-rt", instance="a", '
            'operation="plug", result="NoParent"}'
        )
        drift = 'sriov_rt_guest_drifts{job="sriov-rt", instance="a", code="c"}'
        cases = (
            # Observed each hour, as its option says; and one that hangs.
            ("SriovRtFactsStale", "60m", 0, {
                f"sriov_rt_facts_age_seconds{labels}": "0+60x70",
                f"sriov_rt_observe_interval_seconds{labels}": "3600x70",
                facts: "0x70",
            }),
            ("SriovRtFactsStale", "5m", 1, {
                f"sriov_rt_facts_age_seconds{labels}": "0+60x70",
                f"sriov_rt_observe_interval_seconds{labels}": "10x70",
                facts: "0x70",
            }),
            # The host's clock is an hour behind, then an hour ahead.
            ("SriovRtFactsStale", "50m", 0, {
                f"sriov_rt_facts_age_seconds{labels}": "5x70",
                f"sriov_rt_observe_interval_seconds{labels}": "10x70",
                facts: "-3600+60x70",
            }),
            ("SriovRtFactsStale", "50m", 1, {
                f"sriov_rt_facts_age_seconds{labels}": "0+60x70",
                f"sriov_rt_observe_interval_seconds{labels}": "10x70",
                facts: "3600x70",
            }),
            # It dies as soon as it has started, over and over.
            ("SriovRtAgentDown", "30m", 1, {
                up: "1x1 0 " * 9 + "1x9",
                f"sriov_rt_agent_start_timestamp_seconds{labels}":
                    "0 0 _ 2 2 _ 5 5 _ 8 8 _ 11 11 _ 14 14 _ 17 17 _ 20 20 _ "
                    "23 23 _ 26x9",
            }),
            ("SriovRtAgentDown", "30m", 0, {
                up: "1x70",
                f"sriov_rt_agent_start_timestamp_seconds{labels}":
                    "0x20 20x20 40x28",
            }),
            # Somebody works on the host; somebody has forgotten that.
            ("SriovRtHostNotReady", "60m", 0, {
                f"sriov_rt_host_ready{labels}": "0x70",
                f"sriov_rt_host_hold_timestamp_seconds{labels}": "60x70",
            }),
            ("SriovRtHostNotReady", "60m", 1, {
                f"sriov_rt_host_ready{labels}": "0x70",
                f"sriov_rt_host_hold_timestamp_seconds{labels}": "-90000x70",
            }),
            # A plug fails while the agent is dead, for longer than 15 minutes.
            ("SriovRtPlugsFail", "50m", 1, {
                up: "1x9 0x29 1x29",
                facts: "0+60x9 _x30 2400+60x29",
                failed: "3x9 _x30 4x29",
            }),
            ("SriovRtPlugsFail", "50m", 0, {
                up: "1x9 0x29 1x29",
                facts: "0+60x9 _x30 2400+60x29",
                failed: "3x9 _x30 3x29",
            }),
            # The agent starts again, and its first audit comes a minute later.
            ("SriovRtGuestDrifted", "21m", 1, {
                up: "1x70",
                facts: "0+60x70",
                f"sriov_rt_audit_known{labels}": "1x19 0x1 1x40",
                drift: "1x19 _x2 1x40",
            }),
            ("SriovRtGuestDrifted", "30m", 0, {
                up: "1x70",
                facts: "0+60x70",
                f"sriov_rt_audit_known{labels}": "1x70",
                drift: "1x19 stale",
            }),
            # Nobody knows what has become of what was quarantined.
            ("SriovRtPortQuarantined", "40m", 1, {
                up: "1x70",
                facts: "0+60x70",
                f"sriov_rt_records_known{labels}": "1x19 0x50",
                'sriov_rt_quarantined_ports{job="sriov-rt", instance="a", '
                'parent="p"}': "1x19 stale",
            }),
            ("SriovRtAuditUnknown", "40m", 1, {
                f"sriov_rt_records_known{labels}": "1x19 0x50",
                f"sriov_rt_audit_known{labels}": "1x70",
            }),
            # The certificate cannot be read: no flavor with a bound lands.
            ("SriovRtCertificateWithdrawn", "40m", 1, {
                up: "1x70",
                facts: "0+60x70",
                f"sriov_rt_certificate_known{labels}": "1x19 0x50",
                f"sriov_rt_certificate_withdrawn{labels}": "0x19 stale",
            }),
        )  # fmt: skip
        tests = [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values}
                    for name, values in series.items()
                ],
                "promql_expr_test": [_fires(alert, at, is_raised)],
            }
            for alert, at, is_raised, series in cases
        ]
        self.run_rules(tests, "1m")

    def test_the_recording_has_the_series_of_an_agent_of_today(self):
        """An agent that has changed is recorded again."""
        recorded = yaml.safe_load(RECORDED.read_text())["series"]
        counters = {
            tuple(sorted(re.findall(r'(?:operation|result)="(\w+)"', name)))
            for name in (each["series"] for each in recorded)
            if "_total" in name
        }
        self.assertEqual(
            {tuple(sorted(each)) for each in port_counts.KNOWN}, counters
        )
        names = {each["series"].partition("{")[0] for each in recorded}
        # Of what this host has none of.
        absent = {"held_vfs", "quarantined_ports", "guest_drifts"}
        absent |= {"cpu_occupants", "host_hold_timestamp_seconds"}
        self.assertLessEqual(
            {each for each in metrics.HELP if "_vf_" not in each}
            - {f"sriov_rt_{each}" for each in absent},
            names,
        )

    def test_the_example_of_a_scrape_and_the_dashboard(self):
        example = PROMETHEUS / "sriov-rt.prometheus.yml"
        self.promtool("check", "config", "--syntax-only", str(example))
        jobs = yaml.safe_load(example.read_text())["scrape_configs"]
        self.assertEqual(["sriov-rt"], [each["job_name"] for each in jobs])
        queries = [
            target["expr"].replace("$instance", ".*").replace("$parent", ".*")
            for panel in json.loads(BOARD.read_text())["panels"]
            for target in panel["targets"]
        ]
        rules = [
            {"record": f"panel:{number}", "expr": query}
            for number, query in enumerate(queries)
        ]
        file = self.path / "board.yml"
        file.write_text(
            yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]})
        )
        self.promtool("check", "rules", str(file))

    def serve(self):
        """Serve what an agent has, and return the port."""
        root = Root(str(self.path))
        counts = root.path / port_counts.DIRECTORY
        counts.mkdir(parents=True)
        (counts / "plug.ok").write_text("...")
        port = free_port()
        agent = metrics.Metrics("127.0.0.1", port, host, root)
        agent.start()
        self.addCleanup(agent.stop)
        return port

    def test_the_names_follow_the_conventions(self):
        url = f"http://127.0.0.1:{self.serve()}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        self.assertEqual("", self.promtool("check", "metrics", text=text))

    def prometheus(self, target):
        """Start a server that scrapes a target; return its address."""
        scrape = {
            "job_name": "sriov-rt",
            "static_configs": [{"targets": [target]}],
        }
        config = self.path / "prometheus.yml"
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {
                        "scrape_interval": "1s",
                        "evaluation_interval": "1s",
                    },
                    "rule_files": [str(RULES)],
                    "scrape_configs": [scrape],
                }
            )
        )
        self.promtool("check", "config", str(config))
        address = f"127.0.0.1:{free_port()}"
        log = (self.path / "log").open("w")
        self.addCleanup(log.close)
        server = subprocess.Popen(
            (
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={self.path / 'data'}",
                f"--web.listen-address={address}",
            ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self.addCleanup(server.wait, timeout=60)
        self.addCleanup(server.terminate)
        return address

    @periodic.periodic
    def test_a_server_scrapes_it_and_raises_an_alert(self):
        address = self.prometheus(f"127.0.0.1:{self.serve()}")
        self.check(address, "sum(sriov_rt_guest_drifts)", "2")
        self.check(address, "sum(sriov_rt_port_operations_total)", "3")
        self.check(address, _firing("SriovRtCertificateWithdrawn"), "1")

    @periodic.periodic
    def test_alerts_outlive_the_agent_that_raised_them(self):
        """kill -9, and then longer than Prometheus looks back (5 minutes)."""
        life = agent_life.Life(self.path, free_port())
        self.addCleanup(life.kill)
        life.start()
        address = self.prometheus(life.target)
        withdrawn = _firing("SriovRtCertificateWithdrawn")
        down = _firing("SriovRtAgentDown")
        self.check(address, withdrawn, "1")
        life.fail()
        self.check(address, _firing("SriovRtPlugsFail"), "1")
        life.kill()
        died = time.monotonic()
        self.check(address, down, "1", patience_s=180)
        while time.monotonic() < died + 400:
            for query in (withdrawn, down):
                found = self.ask(address, query)
                after = f"{query} {time.monotonic() - died:.0f} s after"
                self.assertEqual("1", found and found[0]["value"][1], after)
            time.sleep(5)
        life.start()
        self.check(address, f"absent({down})", "1")
        self.check(address, withdrawn, "1")

    def ask(self, address, query):
        """Return the result of a query."""
        url = f"http://{address}/api/v1/query?" + urllib.parse.urlencode(
            {"query": query}
        )
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    def check(self, address, query, value, patience_s=60):
        """Wait until a query has a value."""
        deadline = time.monotonic() + patience_s
        found = None
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                found = self.ask(address, query)
                if found and found[0]["value"][1] == value:
                    return
            time.sleep(0.5)
        self.fail(f"{query}: {found}; {(self.path / 'log').read_text()}")


def _firing(alert):
    return f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'


def _fires(alert, at, is_raised):
    """Return promtool's test of whether an alert fires at a time."""
    samples = [{"labels": "{}", "value": 1}] if is_raised else []
    return {"expr": _firing(alert), "eval_time": at, "exp_samples": samples}
