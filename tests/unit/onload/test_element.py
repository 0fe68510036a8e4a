# SPDX-License-Identifier: Apache-2.0

"""The element that has an image's services start with Onload."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = (
    pathlib.Path(__file__).parents[3]
    / "etc/diskimage-builder/sriov-rt-onload/post-install.d"
    / "90-sriov-rt-onload"
)


class ElementTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)

    def install_onload(self):
        library = self.root / "usr/lib/x86_64-linux-gnu/libonload.so"
        library.parent.mkdir(parents=True)
        library.touch()

    def run_script(self, services):
        return subprocess.run(
            (SCRIPT,),
            env={
                "PATH": os.environ["PATH"],
                "SRIOV_RT_ROOT": str(self.root),
                "SRIOV_RT_ONLOAD_SERVICES": services,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def written(self):
        found = self.root.glob("etc/systemd/system/*/*")
        return {str(e.relative_to(self.root)): e.read_text() for e in found}

    def refused(self, services, sentence):
        done = self.run_script(services)
        self.assertEqual(1, done.returncode)
        self.assertIn(sentence, done.stderr)
        self.assertEqual({}, self.written())

    def test_services_read_what_cloud_init_writes(self):
        self.install_onload()
        done = self.run_script("redis-server nginx.service")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        unit = "[Service]\nEnvironmentFile=-/etc/sriov-rt/onload.env\n"
        directory = "etc/systemd/system"
        self.assertEqual(
            {
                f"{directory}/{name}.service.d/sriov-rt-onload.conf": unit
                for name in ("redis-server", "nginx")
            },
            self.written(),
        )

    def test_an_image_without_onload_is_not_built(self):
        self.refused("nginx", "there is no libonload.so in the image")

    def test_without_services_it_is_for_nothing(self):
        self.install_onload()
        self.refused("", "set SRIOV_RT_ONLOAD_SERVICES")

    def test_a_path_is_no_service(self):
        self.install_onload()
        self.refused("../../etc/passwd", "is no name of a service")
