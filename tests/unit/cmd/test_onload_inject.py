# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt onload status``, ``lxc-config``, ``lxc-hook``, ``pod-patch``."""

import contextlib
import copy
import io
import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.cmd import main
from tests.unit.cmd import tables
from tests.unit.onload import elves
from tests.unit.onload import test_status
from tests.unit.pods import test_pod


class InjectCommandTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name).resolve()
        (self.path / "mine.opf").write_text("onload_set EF_POLL_USEC 9\n")
        self.write("lib/libonload.so", elves.LIBRARY)
        self.write("image/sbin/init", elves.INIT)
        self.write("image/lib64/libc.so.6", elves.LIBC)
        self.configure("devices = /dev/null")

    def write(self, name, built):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(built.bytes())

    def configure(self, *lines):
        self.config = self.path / "sriov-rt.conf"
        given = (
            "[onload]",
            f"profile_directories = {self.path}",
            "profiles = mine",
            f"library = {self.path}/lib/libonload.so",
            *lines,
        )
        self.config.write_text("\n".join(given))

    def run_command(self, *words, stdin=b"", config=True):
        printed, told = io.StringIO(), io.StringIO()
        if config:
            words = (*words, "--config-file", str(self.config))
        source = io.TextIOWrapper(io.BytesIO(stdin))
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(told),
            mock.patch("sys.stdin", source),
        ):
            code = main.main(["onload", *words])
        return code, printed.getvalue(), told.getvalue()

    def lxc_config(self, *words, image="image"):
        return self.run_command(
            *("lxc-config", "c1", "--rootfs", str(self.path / image)), *words
        )

    def test_lxc_config(self):
        code, printed, told = self.lxc_config("--profile", "mine")
        self.assertEqual((0, ""), (code, told))
        lines = printed.splitlines()
        self.assertRegex(
            lines[0], r"\A# Onload, profile mine, sha256 [0-9a-f]"
        )
        self.assertIn("lxc.environment = EF_POLL_USEC=9", lines)
        self.assertRegex(printed, r"devices\.allow = c 1:3 rw")

    def test_lxc_config_refuses_an_image(self):
        self.write("image/sbin/init", elves.MUSL)
        code, printed, told = self.lxc_config()
        self.assertEqual((3, ""), (code, printed))
        self.assertIn("refused: the image uses musl", told)

    def test_lxc_config_without_the_image(self):
        code, printed, told = self.lxc_config(image="none")
        self.assertEqual(0, code)
        self.assertIn("was not checked", told)
        self.assertIn("lxc.hook.pre-start", printed)

    def test_lxc_config_errors(self):
        for words, told in (
            (("lxc-config", "../x"), "not the name of a container"),
            (("lxc-config", "c1", "--profile", "x"), "is not allowed"),
        ):
            code, _, said = self.run_command(*words)
            self.assertEqual(2, code)
            self.assertIn(told, said)
        for device in ("/dev/none-of-onload", "/dev/shm"):
            self.configure(f"devices = {device}")
            code, _, said = self.lxc_config()
            self.assertEqual(2, code)
            self.assertIn("not a character device", said)
        self.configure("library =")
        code, _, said = self.lxc_config()
        self.assertEqual(2, code)
        self.assertIn("[onload] library is not set", said)

    def test_lxc_hook(self):
        image = str(self.path / "image")
        given = ("lxc-hook", "c1", "lxc", "pre-start")
        for path in (image, f"dir:{image}"):
            with mock.patch.dict(os.environ, LXC_ROOTFS_PATH=path):
                self.assertEqual((0, "", ""), self.run_command(*given))
        self.write("image/sbin/init", elves.STATIC)
        with mock.patch.dict(os.environ, LXC_ROOTFS_PATH=image):
            code, _, told = self.run_command(*given)
        self.assertEqual(3, code)
        self.assertIn("linked statically", told)
        with mock.patch.dict(os.environ, LXC_ROOTFS_PATH="overlay:a:b"):
            code, _, told = self.run_command(*given)
        self.assertEqual(0, code)
        self.assertIn("was not checked", told)

    def test_pod_patch(self):
        pod = json.dumps(test_pod.POD).encode()
        words = ("pod-patch", "--profile", "mine", "--network", "fast")
        code, printed, _ = self.run_command(*words, stdin=pod)
        self.assertEqual(0, code)
        ops = json.loads(printed)
        self.assertEqual({"add"}, {each["op"] for each in ops})
        self.assertIn("/opt/onload/usr/lib64/libonload.so", printed)
        code, printed, _ = self.run_command(
            *words, "--mount", "--dry-run", stdin=pod
        )
        spec = json.loads(printed)["spec"]
        self.assertEqual(
            f"{self.path}/lib", spec["volumes"][0]["hostPath"]["path"]
        )
        code, _, told = self.run_command(*words, stdin=b"[]")
        self.assertEqual(2, code)
        self.assertIn("kubectl get -o json", told)

    def test_pod_patch_of_a_pod_whose_runtime_class_is_known(self):
        given = copy.deepcopy(test_pod.POD)
        given["spec"]["runtimeClassName"] = "isolated"
        stdin = json.dumps(given).encode()
        file = self.path / "class.json"
        words = ("pod-patch", "--profile", "mine", "--network", "fast")
        words = (*words, "--runtime-class", str(file))
        for handler, expected in (("runc", 0), ("kata-qemu", 2)):
            document = test_pod.runtime_class("isolated", handler)
            file.write_text(json.dumps(document))
            code, _, told = self.run_command(*words, stdin=stdin)
            self.assertEqual(expected, code, told)
        self.assertIn("handler 'kata-qemu'", told)
        file.write_text("{")
        code, _, told = self.run_command(*words, stdin=stdin)
        self.assertEqual(2, code)
        self.assertIn("its RuntimeClass: not JSON", told)
        file.unlink()
        code, _, told = self.run_command(*words, stdin=stdin)
        self.assertEqual(2, code)
        self.assertIn("class.json", told)

    def test_pod_patch_of_a_pod_with_another_network(self):
        pod = copy.deepcopy(test_pod.POD)
        annotations = {"k8s.v1.cni.cncf.io/networks": "mgmt"}
        pod["metadata"]["annotations"] = annotations
        code, printed, told = self.run_command(
            *("pod-patch", "--profile", "mine", "--network", "fast"),
            stdin=json.dumps(pod).encode(),
        )
        self.assertEqual(0, code)
        self.assertIn('"mgmt, fast"', printed)
        self.assertIn("the pod is also attached to mgmt;", told)

    def test_pod_patch_of_a_pod_with_the_resource_of_another_operator(self):
        given = copy.deepcopy(test_pod.POD)
        container = given["spec"]["containers"][0]
        for resource, expected in (("solarflare.com/sfc", 1), ("x.com/y", 0)):
            container["resources"] = {"limits": {resource: 1}}
            code, _, told = self.run_command(
                *("pod-patch", "--profile", "mine", "--network", "fast"),
                stdin=json.dumps(given).encode(),
            )
            self.assertEqual(0, code)
            self.assertEqual(
                expected,
                told.count("the pod also requests solarflare.com/sfc,"),
                told,
            )

    def test_status(self):
        proc = self.path / "proc/7"
        proc.mkdir(parents=True)
        (proc / "comm").write_text("a\x1b[2J\n")
        (proc / "maps").write_text(test_status.MAPS)
        (proc / "environ").write_bytes(test_status.ENVIRON)
        words = ("status", "--root", str(self.path))
        code, printed, _ = self.run_command(*words, config=False)
        self.assertEqual(0, code)
        self.assertEqual("onload module: none", printed.splitlines()[0])
        (line,) = tables.rows(printed)
        self.assertEqual(
            "injected, not accelerated: no onload module", line["State"]
        )
        code, printed, _ = self.run_command(
            *words, "-c", "name", "-c", "state", config=False
        )
        self.assertNotIn("\x1b", printed)
        code, printed, _ = self.run_command(*words, "--json", config=False)
        plain = json.loads(printed)
        self.assertEqual({"loaded": False, "stacks": None}, plain["driver"])
        (row,) = plain["processes"]
        self.assertEqual(
            (7, "injected", False), (row["pid"], row["state"], row["stand_in"])
        )
        self.assertEqual("100000", row["variables"]["EF_POLL_USEC"])

    def test_status_of_none(self):
        (self.path / "proc/9").mkdir(parents=True)
        (self.path / "proc/9/maps").mkdir()
        words = ("status", "--root", str(self.path))
        _, printed, _ = self.run_command(*words, config=False)
        self.assertIn("no process has loaded or requested Onload", printed)
        who = "run as root" if os.geteuid() else "give it CAP_SYS_PTRACE"
        self.assertIn(f"1 process could not be inspected; {who}", printed)
