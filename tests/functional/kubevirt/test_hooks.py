# SPDX-License-Identifier: Apache-2.0

"""The programs as processes, called by gRPC's own client."""

import os
import stat
import subprocess
import sys

import grpc

from sriov_rt.kubevirt import contract
from tests.functional.kubevirt import base
from tests.unit.kubevirt import documents

MUTATE = f"/{contract.DOMAIN_SERVICE}/MutateDomain"
EXECUTE = f"/{contract.NODE_SERVICE}/ExecuteNodeHook"


class HooksTest(base.HookTestCase):
    def setUp(self):
        super().setUp()
        self.socket = self.path / "hook.sock"

    def call(self, method, data):
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            return channel.unary_unary(method)(data, timeout=120)

    def refused(self, method, data):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(method, data)
        self.assertEqual(
            grpc.StatusCode.FAILED_PRECONDITION, caught.exception.code()
        )
        return caught.exception.details()

    def test_domain_hook(self):
        with base.serving("domain-hook", socket=self.socket) as log:
            self.assertTrue(stat.S_ISSOCK(self.socket.lstat().st_mode))
            found = self.call(
                MUTATE, documents.mutate(documents.vmi(guest="lean"))
            )
            self.assertNotIn(b"<video", found)
            sentence = self.refused(
                MUTATE, documents.mutate(documents.vmi(guest="bare"))
            )
            self.assertIn("guest_agent=off", sentence)
            text = log.read_text()
            self.assertIn("INFO vmi=realtime/rt removed video", text)
            self.assertIn("ERROR vmi=realtime/rt refused: ", text)
        # A socket that is left is no hindrance to the next container.
        with base.serving("domain-hook", socket=self.socket):
            self.call(MUTATE, documents.mutate(documents.vmi()))

    def test_node_hook(self):
        nothing = documents.execute("PreVMStart", documents.vmi())
        asks = documents.execute("PreVMStart", documents.vmi(guest="lean"))
        certified = documents.execute(
            "PreVMStart", documents.vmi(max_latency_us="50")
        )
        fast = documents.execute(
            "PreVMStart", documents.vmi(interfaces=("fast",), guest="lean")
        )
        options = (f"--pod-resources={self.path / 'kubelet.sock'}",)
        with base.serving("node-hook", *options, socket=self.socket):
            for each in (nothing, asks):
                self.assertEqual(b"", self.call(EXECUTE, each))
            self.assertIn("certificate", self.refused(EXECUTE, certified))
            self.assertIn("kubelet does not", self.refused(EXECUTE, fast))


class OnDefineDomainTest(base.HookTestCase):
    def run_hook(self, vmi, domain=documents.DOMAIN):
        words = ("kubevirt", "on-define-domain", "--vmi", vmi.decode())
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            (
                *(sys.executable, "-m", "sriov_rt.cmd.main"),
                *(*words, "--domain", domain),
            ),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=environment,
        )

    def test_it_prints_the_domain_and_nothing_else(self):
        done = self.run_hook(documents.vmi(guest="lean"))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(done.stdout.startswith("<domain"))
        self.assertNotIn("<video", done.stdout)

    def test_a_domain_that_asks_nothing_is_not_read(self):
        done = self.run_hook(documents.vmi(), "<half")
        self.assertEqual((0, "<half\n"), (done.returncode, done.stdout))

    def test_a_refusal(self):
        done = self.run_hook(documents.vmi(guest="bare"))
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertIn("guest_agent=off", done.stderr)
