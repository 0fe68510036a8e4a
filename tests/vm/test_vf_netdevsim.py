# SPDX-License-Identifier: Apache-2.0

"""The attributes of a VF that an 82576 refuses, on a netdevsim."""

import json
import pathlib
from typing import Any

from tests.periodic import periodic
from tests.testbed import packages
from tests.testbed.rtvm import netdevsim
from tests.vm import base

_VERBS = pathlib.Path(__file__).with_name("netdevsim_verbs.py")


def load(test: base.VmTestCase) -> None:
    """Load netdevsim until the end of a test."""
    directories = base.place()
    packages.install(netdevsim.PACKAGES, directories.log / "apt.log")
    module = netdevsim.module(test.vm.prepare(), directories.cache)
    test.sh(
        "mountpoint -q /sys/kernel/debug || "
        "mount -t debugfs debugfs /sys/kernel/debug\n"
        f"modprobe psample && insmod {module}"
    )
    test.addCleanup(test.sh, "rmmod netdevsim")


@periodic
class NetdevsimTest(base.VmTestCase):
    """Written by the real netlink, and read back from the kernel."""

    def test_what_igb_refuses_is_set_and_reset(self) -> None:
        """802.1ad, min_tx_rate, link state, query_rss; 64 VFs in one go."""
        load(self)
        result = self.vm.run(
            (base.product().program("python"), "-I", str(_VERBS)),
            timeout=base.PATIENCE,
            check=False,
        )
        self.assertEqual(result.status, 0, result.complaint)
        found = json.loads(result.text)
        settings: tuple[dict[str, Any], ...] = (
            {"vlan": 100, "vlan_protocol": "802.1ad"},
            {"min_tx_rate": 50, "max_tx_rate": 100},
            {"link_state": "disable"},
            {"query_rss": True},
        )
        for number, wanted in enumerate(settings):
            with self.subTest(**wanted):
                after = found["after"][number]
                self.assertEqual({**after, **wanted}, after)
        clean = found["clean"]
        self.assertEqual(
            (clean["vlan"], clean["vlan_protocol"], clean["min_tx_rate"]),
            (0, "802.1q", 0),
        )
        self.assertEqual(clean["link_state"], "auto")
        self.assertIs(clean["query_rss"], False)
        self.assertEqual(len(found["all"]), 64)
        for number, vf in enumerate(found["all"]):
            with self.subTest(vf=number):
                self.assertEqual(
                    (
                        *(vf["address"], vf["vlan_list"], vf["rate"]),
                        *(vf["spoofchk"], vf["trust"], vf["query_rss_en"]),
                        vf["link_state"],
                    ),
                    (
                        f"52:54:00:00:00:{number:02x}",
                        [{"vlan": 100 + number, "qos": 3}],
                        {"max_tx": 1000 + number, "min_tx": 0},
                        *(False, True, True),
                        "enable",
                    ),
                )
