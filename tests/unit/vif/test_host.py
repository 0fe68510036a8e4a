# SPDX-License-Identifier: Apache-2.0

"""What an operator configures is what the plugger of a host goes by."""

import pathlib
import tempfile
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.codec import Unknown
from sriov_rt.vif import host


class RulesTest(unittest.TestCase):
    def rules(self, **given):
        conf = cfg.ConfigOpts()
        conf([], project="sriov_rt", default_config_files=[])
        with mock.patch.object(host.Vfs, "of_host"):
            host.of(conf)
            for name, value in given.items():
                conf.set_override(name, value, group="onload")
            return host.of(conf).rules

    def test_a_second_endpoint_is_refused_unless_it_may_be_plain(self):
        self.assertFalse(self.rules().unaccelerated)
        rules = self.rules(second_endpoint="unaccelerated")
        self.assertTrue(rules.unaccelerated)
        self.assertFalse(self.rules(second_endpoint="refuse").unaccelerated)

    def test_the_nics_are_those_of_the_facts(self):
        with mock.patch.object(
            host.nics, "observe", return_value={"ens2f0": "native"}
        ):
            self.assertEqual({"ens2f0"}, {*self.rules().onload_nics()})

    def test_nics_that_are_not_known_bind_nobody_and_are_told_of(self):
        with (
            mock.patch.object(
                host.nics, "observe", return_value=Unknown("no /sys")
            ),
            self.assertLogs(host.__name__, "WARNING") as logged,
        ):
            self.assertEqual((), self.rules().onload_nics())
        self.assertIn("no /sys", logged.output[0])


class RecordsTest(unittest.TestCase):
    """Where the records are, by either name of the option."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = pathlib.Path(place.name, "sriov-rt.conf")

    def conf(self, line):
        self.file.write_text(f"[vif]\n{line}\n")
        return config.load([self.file])

    def test_both_names_are_read(self):
        for name in ("records", "journal"):
            with self.subTest(name):
                self.conf(f"{name} = /run/mine")
                found = host.records([str(self.file)])
                self.assertEqual("/run/mine/records", str(found.directory))

    def test_a_bad_value_is_refused_by_the_name_that_it_has(self):
        for name in ("records", "journal"):
            conf = self.conf(f"{name} = run/mine")
            with (
                self.subTest(name),
                self.assertRaises(config.OptionRejected) as caught,
            ):
                host.check(conf, "test")
            self.assertIn(
                f"[vif] {name} = run/mine in {self.file} is rejected",
                str(caught.exception),
            )
