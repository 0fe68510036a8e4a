# SPDX-License-Identifier: Apache-2.0

"""KubeVirt's own callers and the programs of hooks.

KubeVirt 1.9 calls the domain hook by its pipeline and the node hook by
virt-handler's caller; the shim of 1.5 runs onDefineDomain. All of them are
KubeVirt's code (tests/testbed/kubevirt).
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import typing

import grpc
import yaml

from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt import messages
from tests import periodic
from tests.functional.kubevirt import base
from tests.testbed import paths
from tests.testbed.kubevirt import programs
from tests.testbed.progress import Progress
from tests.unit.documented_host import ROOT
from tests.unit.kubevirt import documents

ETC = ROOT / "etc/kubevirt"

#: What virt-launcher looks for below its own directory of sockets.
SOCKETS = pathlib.Path("/var/run/kubevirt-plugin")


def prepared(program):
    """Return a program, built if need be."""
    places = paths.Paths.from_environment()
    places.make()
    return program.prepare(places.cache, places.log, Progress())


class DriverTestCase(base.HookTestCase):
    file = "plugin.yaml"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = prepared(programs.DRIVER)

    def setUp(self):
        super().setUp()
        (self.plugin,) = yaml.safe_load_all((ETC / self.file).read_text())
        self.spec = self.plugin["spec"]

    def drive(self, act, vmi, domain=documents.DOMAIN, **options):
        """Return what KubeVirt makes of a VMI."""
        words = [f"-{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            (
                self.driver,
                f"-plugin={self.write('plugin', json.dumps(self.plugin))}",
                f"-vmi={self.write('vmi', vmi)}",
                f"-domain={self.write('domain', domain)}",
                *words,
                act,
            ),
            capture_output=True,
            check=False,
            text=True,
            timeout=600,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)


@periodic.periodic
class ConditionTest(DriverTestCase):
    """Conditions where KubeVirt evaluates them, each by the names it has."""

    options: typing.ClassVar[dict[str, str]] = {}

    def holds(self, vmi):
        found = self.drive("conditions", vmi, **self.options)
        self.assertNotIn("error", found)
        return *found["domains"], *found["nodes"]

    def test_a_vmi_that_asks_in_the_namespace(self):
        found = self.holds(documents.vmi(guest="lean"))
        self.assertEqual((True, True, True), found)

    def test_a_vmi_that_asks_elsewhere_is_a_stranger(self):
        for given in (
            {"guest": "lean"},
            {"interfaces": ["fast"]},
            {"devices": ["vf"]},
        ):
            found = self.elsewhere(documents.vmi(**given))
            self.assertEqual((False, False, False), self.holds(found))

    def test_a_vmi_of_the_namespace_is_cleaned_after_whatever_it_asks_by_then(
        self,
    ):
        other = json.loads(documents.vmi())
        other["metadata"]["annotations"] = {"kubevirt.io/x": "y"}
        for each in (documents.vmi(), json.dumps(other).encode()):
            self.assertEqual((False, False, True), self.holds(each))

    @staticmethod
    def elsewhere(vmi):
        return vmi.replace(b'"namespace": "realtime"', b'"namespace": "x"')

    def test_a_condition_of_the_plugin_stops_every_vmi(self):
        """virt-handler evaluates it, too, in 1.9 by other names."""
        self.spec["condition"] = 'vmi.Namespace == "realtime"'
        found = self.drive("conditions", documents.vmi(), **self.options)
        self.assertIn("virt-handler: CEL compilation", found["error"])


class Condition110Test(ConditionTest):
    """The same of 1.10, which has Go's names everywhere.

    virt-launcher's evaluator of 1.9 stands in for both of 1.10.
    """

    file = "plugin-1.10.yaml"
    options: typing.ClassVar[dict[str, str]] = {"gonames": "yes"}

    def test_a_condition_of_the_plugin_stops_every_vmi(self):
        """It compiles there; it would keep VFs from being cleaned."""
        self.spec["condition"] = 'vmi.Namespace == "realtime"'
        elsewhere = self.elsewhere(documents.vmi())
        self.assertEqual((False, False, False), self.holds(elsewhere))


@periodic.periodic
class PipelineTest(DriverTestCase):
    """Domain hooks, where virt-launcher has its sockets."""

    def setUp(self):
        super().setUp()
        name = self.plugin["metadata"]["name"] = f"sriov-rt-{os.getpid()}"
        directory = SOCKETS / name
        directory.mkdir(parents=True)
        self.addCleanup(self.tidy, directory)
        self.socket = directory / "domain.sock"
        (hook,) = self.spec["domainHooks"]
        hook["sidecar"]["socketPath"] = str(self.socket)

    @staticmethod
    def tidy(directory):
        for each in directory.iterdir():
            each.unlink()
        directory.rmdir()
        with contextlib.suppress(OSError):
            SOCKETS.rmdir()

    def serving(self):
        return base.serving("domain-hook", socket=self.socket)

    def test_a_vmi_of_200_kilobytes_is_lean(self):
        vmi = json.loads(documents.vmi(guest="lean"))
        vmi["spec"]["accessCredentials"] = [{"x": "y" * 200_000}]
        vmi["metadata"]["annotations"]["x"] = "y" * 200_000
        with self.serving():
            found = self.drive("pipeline", json.dumps(vmi))
        self.assertNotIn("error", found)
        for kept in (found["xml"], found["spec"]):
            self.assertIn("org.qemu.guest_agent.0", kept)
            self.assertNotIn("<graphics", kept)
            self.assertIn('<memballoon model="none">', kept)
        self.assertIn("sriov_rt:guest", found["xml"])

    def test_the_domain_of_kubevirts_converter(self):
        vmi = json.loads(documents.vmi({}, guest="lean", realtime="required"))
        vmi["spec"]["domain"]["cpu"] |= {
            "cores": 2,
            "dedicatedCpuPlacement": True,
            "isolateEmulatorThread": True,
            "numa": {"guestMappingPassthrough": {}},
        }
        vmi["spec"]["domain"]["memory"] = {
            "guest": "1Gi",
            "hugepages": {"pageSize": "2Mi"},
        }
        vmi["spec"]["networks"] = [{"name": "default", "pod": {}}]
        text = json.dumps(vmi)
        domain = self.drive("convert", text, cpus="1,2,3")["xml"]
        # virt-launcher's network phase says which, after the converter.
        domain = domain.replace('type=""', 'type="ethernet"')
        self.assertIn('<emulatorpin cpuset="3">', domain)
        with self.serving():
            found = self.drive("pipeline", text, domain)
        # This machine isolates no CPU: the pins are compared with the node.
        self.assertIn("failed with FailedPrecondition: ", found["error"])
        self.assertIn("realtime vCPUs 0-1 run on pCPUs 1-2", found["error"])

    def test_a_refusal_is_kubevirts_error(self):
        with self.serving():
            found = self.drive("pipeline", documents.vmi(guest="bare"))
        self.assertIn("hook 0 failed: MutateDomain RPC to", found["error"])
        self.assertIn("FailedPrecondition: ", found["error"])
        self.assertIn("guest_agent=off", found["error"])

    def test_a_vmi_that_asks_nothing_needs_no_server(self):
        found = self.drive("pipeline", documents.vmi())
        self.assertIn("<video>", found["xml"])

    def test_on_a_migrations_target_nothing_is_changed(self):
        options = {"context": contract.MIGRATION_TARGET}
        with self.serving():
            found = self.drive(
                "pipeline", documents.vmi(guest="lean"), **options
            )
        self.assertIn("<video>", found["xml"])

    def test_a_link_in_the_sockets_place(self):
        """KubeVirt does not follow it, and our server makes none there."""
        real = self.path / "real.sock"
        with base.serving("domain-hook", socket=real):
            self.socket.symlink_to(real)
            found = self.drive("pipeline", documents.vmi(guest="lean"))
        self.assertIn("is a symlink", found["error"])


@periodic.periodic
class NodeHookTest(DriverTestCase):
    def setUp(self):
        super().setUp()
        self.socket = self.path / "node.sock"
        for each in self.spec["nodeHooks"]:
            each["socket"] = str(self.socket)

    def test_every_point_as_virt_handler_calls_it(self):
        kubelet = f"--pod-resources={self.path / 'kubelet.sock'}"
        points = self.spec["nodeHooks"][0]["permittedHooks"]
        points += ["PostVMStart", "PreVMStop", "PreMigrationSource"]
        points += ["PostMigrationTarget"]
        lean = documents.vmi(guest="lean")
        with base.serving("node-hook", kubelet, socket=self.socket):
            for point in (*points, "PostVMStop"):
                with self.subTest(point=point):
                    found = self.drive("node", lean, point=point)
                    self.assertNotIn("error", found)
            found = self.drive("node", documents.vmi(max_latency_us="9"))
            self.assertIn("FailedPrecondition: no latency", found["error"])
        # Without a server, who asks for nothing starts and ends all the same.
        for point in (*points, "PostVMStop"):
            with self.subTest(stranger=point):
                found = self.drive("node", documents.vmi(), point=point)
                self.assertNotIn("error", found)
        # A stranger elsewhere does not even wait: it would be an error here.
        self.spec["nodeHooks"][1]["failureStrategy"] = "Fail"
        stranger = ConditionTest.elsewhere(documents.vmi(devices=["vf"]))
        found = self.drive("node", stranger, point="PostVMStop")
        self.assertNotIn("error", found)
        found = self.drive("node", documents.vmi(), point="PostVMStop")
        self.assertIn("dial", found["error"])
        self.assertIn("dial", self.drive("node", lean)["error"])


@periodic.periodic
class ShimTest(base.HookTestCase):
    """The stock shim of KubeVirt 1.5, with onDefineDomain on its PATH."""

    def setUp(self):
        super().setUp()
        shim = prepared(programs.SHIM)
        script = (ETC / "onDefineDomain").read_text()
        program = self.write(
            "onDefineDomain",
            script.replace("/opt/sriov-rt/bin/python3 -I", sys.executable),
        )
        program.chmod(0o755)
        self.sockets = pathlib.Path("/var/run/kubevirt-hooks")
        made = not self.sockets.exists()
        self.sockets.mkdir(exist_ok=True)
        before = set(self.sockets.iterdir())
        environment = {
            **os.environ,
            "PATH": f"{self.path}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        process = subprocess.Popen(
            (shim, "--version", "v1alpha3"),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(self.end, process, before, made)
        while not (new := set(self.sockets.iterdir()) - before):
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        self.socket = new.pop()
        kinds = messages.build(
            "kubevirt.hooks.v1alpha3",
            {
                "OnDefineDomainParams": (
                    ("domainXML", 1, messages.BYTES),
                    ("vmi", 2, messages.BYTES),
                ),
                "OnDefineDomainResult": (("domainXML", 1, messages.BYTES),),
            },
        )
        self.params = kinds["OnDefineDomainParams"]
        self.result = kinds["OnDefineDomainResult"]

    def end(self, process, before, made):
        process.kill()
        process.wait()
        for each in set(self.sockets.iterdir()) - before:
            each.unlink()
        if made:
            self.sockets.rmdir()

    def define(self, vmi):
        data = self.params(domainXML=documents.DOMAIN.encode(), vmi=vmi)
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            call = channel.unary_unary(
                "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain"
            )
            found = call(data.SerializeToString(), timeout=120)
        return self.result.FromString(found).domainXML.decode()

    def test_a_domain_that_asks_and_one_that_does_not(self):
        self.assertNotIn("<video", self.define(documents.vmi(guest="lean")))
        untouched = self.define(documents.vmi())
        self.assertEqual(documents.DOMAIN, untouched.rstrip("\n"))

    def test_a_refusal_fails_the_start(self):
        with self.assertRaises(grpc.RpcError):
            self.define(documents.vmi(guest="bare"))

    def test_a_vmi_beyond_128_kilobytes_cannot_be_passed(self):
        vmi = documents.vmi(guest="lean") + b" " * 140_000
        with self.assertRaises(grpc.RpcError) as caught:
            self.define(vmi)
        self.assertIn("argument list too long", caught.exception.details())
