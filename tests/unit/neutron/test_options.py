# SPDX-License-Identifier: Apache-2.0

import unittest

from oslo_config import cfg

from sriov_rt.neutron import options
from sriov_rt.request.words import Vif
from sriov_rt.request.words import VifKind


class NetworksTest(unittest.TestCase):
    def _networks(self, **given):
        conf = cfg.ConfigOpts()
        options.register_ml2(conf)
        conf([], default_config_files=[])
        for name, value in given.items():
            conf.set_override(name, value, options.ML2_GROUP)
        return options.networks(conf)

    def test_none_is_served_unless_it_is_named(self):
        self.assertEqual({}, self._networks())

    def test_ports_are_macvlans_in_bridge_mode_by_default(self):
        self.assertEqual(
            {"physnet1": Vif(VifKind.MACVLAN, "bridge")},
            self._networks(physical_networks=["physnet1"]),
        )

    def test_a_network_has_the_kind_behind_its_name(self):
        self.assertEqual(
            {
                "physnet1": Vif(VifKind.VF, None),
                "physnet2": Vif(VifKind.IPVLAN, "l3"),
                "physnet3": Vif(VifKind.MACVLAN, "bridge"),
            },
            self._networks(
                physical_networks=[
                    "physnet1",
                    "physnet2:ipvlan:l3",
                    "physnet3:macvlan",
                ],
                vif="vf",
            ),
        )

    def test_what_no_flavor_may_ask_for_is_refused_in_words(self):
        for vif in ("teleport", "macvlan:l2", "vf:bridge", "ipvlan:"):
            with (
                self.subTest(vif),
                self.assertRaisesRegex(ValueError, "expected|takes"),
            ):
                self._networks(vif=vif, physical_networks=["physnet1"])

    def test_a_name_that_no_network_has_is_refused_in_words(self):
        for name in ("", "phys net", ":vf", "x" * 65):
            with (
                self.subTest(name),
                self.assertRaisesRegex(ValueError, "physical network"),
            ):
                self._networks(physical_networks=[name])
