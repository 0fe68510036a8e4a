# SPDX-License-Identifier: Apache-2.0

"""A real container: an overlay for a root, and process ids of its own."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests.testbed import overlay_container
from tests.testbed import paths

PORT = "b3f2e1d0-1111-4222-8333-444455556666"


@unittest.skipUnless(os.geteuid() == 0, "namespaces are made by root")
class ContainerTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.etc = self.place / "etc"
        self.run_directory = self.place / "run"
        self.empty = self.place / "container"
        for each in (self.etc, self.run_directory, self.empty):
            each.mkdir()
        self.config = self.etc / "sriov-rt.conf"
        self.config.write_text(f"[vif]\nrecords = {self.run_directory}/vif\n")

    def vif(self, *words, shared=()):
        """Run ``sriov-rt vif`` in a container; return its code and output.

        :param shared: directories of the host that are mounted in it, beside
            the one of the configuration.
        """
        done = subprocess.run(
            overlay_container.inside(
                self.empty,
                (self.etc, *shared),
                f"PYTHONPATH={paths.CHECKOUT}",
                *(sys.executable, "-m", "sriov_rt.cmd.main", "vif", *words),
                *("--config-file", str(self.config)),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
            timeout=60,
        )
        return done.returncode, " ".join(done.stdout.split())

    def test_records_that_would_end_with_it_are_refused(self):
        code, output = self.vif("show")
        self.assertNotEqual(0, code, output)
        self.assertIn("records in it would end with the container", output)
        self.assertIn("mount the host's /run", output)

    def test_records_of_the_host_are_used(self):
        code, output = self.vif("show", shared=(self.run_directory,))
        self.assertEqual(0, code, output)
        self.assertIn("no port is plugged on this host", output)

    def test_a_port_of_a_process_is_refused(self):
        code, output = self.vif(
            *("plug", "--port", PORT, "--owner", "me", "--kind", "macvlan"),
            *("--parent", "nowhere", "--namespace", "pid:1"),
            shared=(self.run_directory,),
        )
        self.assertNotEqual(0, code, output)
        self.assertIn(
            "process ids of this container are not the host's", output
        )
        self.assertIn("--pid=host", output)
