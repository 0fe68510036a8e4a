# SPDX-License-Identifier: Apache-2.0

"""Prometheus' own programs read the endpoints and the alert rules."""

import contextlib
import dataclasses
import json
import pathlib
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
from tests.unit import builders

RULES = pathlib.Path(__file__).parents[3] / "etc/prometheus/sriov-rt.rules.yml"

DRIFT = Drift("a", "guest_thread_moved", "vcpu 0", "x; y", "y", 1.0)
CERTIFICATE = LatencyCertificate(25, "6.1", 2000.0, withdrawn=("why",))

#: Series over 20 minutes, and the alerts that they raise then.
CASES = {
    "SriovRtHostNotReady": "sriov_rt_host_ready 0x40",
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
    "SriovRtHostNotReady": "sriov_rt_host_ready 1x40",
    "SriovRtFactsStale": ("sriov_rt_facts_observed_timestamp_seconds 0+60x40"),
    "SriovRtPlugsFail": (
        'sriov_rt_port_operations_total{operation="plug", result="ok"} 0+1x40'
    ),
    "SriovRtGuestDrifted": 'sriov_rt_guest_drifts{code="c"} 0x40',
    "SriovRtAuditUnknown": "sriov_rt_audit_known 1x40",
}


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

    def test_the_rules_raise_their_alerts(self):
        self.promtool("check", "rules", str(RULES))
        rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
        self.assertEqual({each["alert"] for each in rules}, CASES.keys())
        # Two hours in a minute's steps, so that the longest 'for' is over.
        tests = [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values.replace("x40", "x120")}
                    for each in ([series] if type(series) is str else series)
                    for name, _, values in [each.rpartition(" ")]
                ],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}", '
                        'alertstate="firing"})',
                        "eval_time": "110m",
                        "exp_samples": [{"labels": "{}", "value": 1}]
                        if is_raised
                        else [],
                    }
                ],
            }
            for cases, is_raised in ((CASES, True), (GOOD, False))
            for alert, series in cases.items()
        ]
        file = self.path / "test.yml"
        document = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": tests,
        }
        file.write_text(yaml.safe_dump(document))
        self.promtool("test", "rules", str(file))

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

    @periodic.periodic
    def test_a_server_scrapes_it_and_raises_an_alert(self):
        targets = [f"127.0.0.1:{self.serve()}"]
        scrape = {
            "job_name": "sriov-rt",
            "static_configs": [{"targets": targets}],
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
        self.check(address, "sum(sriov_rt_guest_drifts)", "2")
        self.check(address, "sum(sriov_rt_port_operations_total)", "3")
        firing = 'ALERTS{alertstate="firing"}'
        withdrawn = "SriovRtCertificateWithdrawn"
        self.check(
            address, f'count({firing[:-1]},alertname="{withdrawn}"}})', "1"
        )

    def check(self, address, query, value):
        """Wait until a query has a value."""
        url = f"http://{address}/api/v1/query?" + urllib.parse.urlencode(
            {"query": query}
        )
        deadline = time.monotonic() + 60
        found = None
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(url, timeout=10) as answer:
                    found = json.load(answer)["data"]["result"]
                if found and found[0]["value"][1] == value:
                    return
            time.sleep(0.2)
        self.fail(f"{query}: {found}; {(self.path / 'log').read_text()}")
