# SPDX-License-Identifier: Apache-2.0

import unittest

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.service import messaging


class BrokersTest(unittest.TestCase):
    def brokers(self, url: str) -> str:
        conf = cfg.ConfigOpts()
        conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
        conf([], default_config_files=[])
        conf.set_override("transport_url", url, group="sriov_rt")
        return messaging.brokers(conf)

    def test_each_is_named_without_its_password(self) -> None:
        for url, named in (
            (
                "rabbit://u:secret@192.0.2.1:5672,u:secret@[2001:db8::1]:5671/",
                "192.0.2.1:5672, 2001:db8::1:5671",
            ),
            ("rabbit://u:secret@broker/", "broker:5672"),
            ("fake://", "fake"),
            ("rabbit://u:secret@broker:port/", "cannot be parsed"),
        ):
            with self.subTest(url):
                found = self.brokers(url)
                self.assertIn(named, found)
                self.assertNotIn("secret", found)
