# SPDX-License-Identifier: Apache-2.0

import pathlib
import tempfile
import unittest

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.scheduler import options


class CheckTest(unittest.TestCase):
    def _conf(self, text: str) -> cfg.ConfigOpts:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        path = pathlib.Path(scratch.name, "nova.conf")
        path.write_text(text)
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[str(path)])
        return conf

    def test_defaults_are_good(self):
        options.check(self._conf(""))

    def test_a_bad_value_is_named(self):
        conf = self._conf("[sriov_rt]\nwarmup_timeout = 60\n")
        with self.assertRaises(config.OptionRejected) as caught:
            options.check(conf)
        self.assertIn("[sriov_rt] warmup_timeout", str(caught.exception))
        self.assertIn("50", str(caught.exception))

    def test_a_bad_value_of_what_is_shared_with_compute_hosts(self):
        conf = self._conf("[onload]\nsecond_endpoint = maybe\n")
        with self.assertRaises(config.OptionRejected) as caught:
            options.check(conf)
        self.assertEqual("second_endpoint", caught.exception.option)
