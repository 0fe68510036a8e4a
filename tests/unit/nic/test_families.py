# SPDX-License-Identifier: Apache-2.0

import dataclasses
import unittest
from unittest import mock

from sriov_rt.nic import families
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import MacFilters
from sriov_rt.nic.families import Support
from sriov_rt.nic.model import EswitchMode
from sriov_rt.parse.pci import PciId
from tests.unit.nic import fakes


def installed(loaded, failed=None):
    """Have entry points lead to these, and others not be loaded."""
    return mock.patch.object(
        families.entry_points, "load", return_value=(loaded, failed or {})
    )


class ChooseTest(unittest.TestCase):
    def choose(self, families_known=None, **fields):
        pf = dataclasses.replace(fakes.FakeKernel().pf("enp1s0"), **fields)
        return (families_known or families.Families()).of(pf).name

    def test_the_driver_decides_first(self):
        for driver in ("ixgbe", "i40e", "ice", "sfc", "igb"):
            self.assertEqual(driver, self.choose(driver=driver))
        self.assertEqual("ixgbe", self.choose(driver="ixgbe", vendor="1924"))

    def test_pci_id_where_no_row_has_the_driver(self):
        for driver in (None, "igb_uio"):
            self.assertEqual(
                "i40e",
                self.choose(driver=driver, vendor="8086", product="1572"),
            )
            self.assertEqual(
                "sfc",
                self.choose(driver=driver, vendor="1924", product="0b03"),
            )

    def test_others_are_generic(self):
        self.assertEqual(
            "generic",
            self.choose(driver="nobody", vendor="ffff", product="ffff"),
        )
        for each in Attribute:
            self.assertIs(Support.PROBE, families.GENERIC.supports(each))

    def test_rows_of_other_packages(self):
        row = Family(name="nobody", drivers=frozenset({"nobody"}))
        with installed({"nobody": row}) as load:
            known = families.Families.installed()
        load.assert_called_once_with("sriov_rt.nic_families")
        self.assertEqual("nobody", self.choose(known, driver="nobody"))
        self.assertEqual("igb", self.choose(known, driver="igb"))

    def test_row_may_be_replaced(self):
        row = dataclasses.replace(families.IGB, max_vfs=3)
        self.assertEqual(
            3, families.Families((*families.BUILT_IN, row)).rows["igb"].max_vfs
        )

    def test_a_row_that_cannot_be_loaded_is_logged(self):
        with (
            installed({"a": "nonsense"}, {"b": "ImportError: no module"}),
            self.assertLogs("sriov_rt.nic", "WARNING") as logs,
        ):
            known = families.Families.installed()
        self.assertEqual(2, len(logs.output))
        self.assertEqual("igb", self.choose(known, driver="igb"))

    def test_a_product_goes_before_all_of_its_vendor(self):
        row = Family(
            name="xtreme",
            drivers=frozenset(),
            products=frozenset({PciId(0x1924, 0x0B03)}),
        )
        known = families.Families((*families.BUILT_IN, row))
        for product, name in (("0b03", "xtreme"), ("0a03", "sfc")):
            self.assertEqual(
                name,
                self.choose(
                    known, driver=None, vendor="1924", product=product
                ),
            )

    def test_a_row_is_for_one_eswitch_mode(self):
        for driver, product in (("nobody", "ffff"), (None, "0001")):
            pf = {"driver": driver, "vendor": "ffff", "product": product}
            rows = [
                Family(
                    name=f"nobody_{mode}",
                    drivers=frozenset({"nobody"}),
                    products=frozenset({PciId(0xFFFF, 0x0001)}),
                    eswitch=mode,
                )
                for mode in EswitchMode
            ]
            known = families.Families(rows)
            for mode in EswitchMode:
                found = self.choose(known, **pf, eswitch=mode)
                self.assertEqual(f"nobody_{mode}", found)
            # Nothing is assumed of a mode that no row is for.
            known = families.Families(rows[:1])
            found = self.choose(known, **pf, eswitch=EswitchMode.SWITCHDEV)
            self.assertEqual("generic", found)

    def test_each_row_is_found_by_each_driver_and_id_of_it(self):
        """No row is shadowed by another, and so without effect."""
        for row in families.BUILT_IN:
            self.assertTrue(row.drivers, row.name)
            self.assertTrue(row.products, row.name)
            for driver in row.drivers:
                found = self.choose(driver=driver, eswitch=row.eswitch)
                self.assertEqual(row.name, found)
            for each in row.products:
                vendor, _, product = str(each).partition(":")
                found = self.choose(
                    driver=None,
                    vendor=vendor,
                    product=product or "ffff",
                    eswitch=row.eswitch,
                )
                self.assertEqual(row.name, found, each)
        rows = families.Families().rows.values()
        self.assertEqual(families.BUILT_IN, tuple(rows))


class RowTest(unittest.TestCase):
    def test_no_row_is_left_out(self):
        rows = {
            each.name
            for each in vars(families).values()
            if isinstance(each, Family) and each is not families.GENERIC
        }
        self.assertEqual(rows, {each.name for each in families.BUILT_IN})

    def test_mlx5_by_its_eswitch_mode(self):
        pf = fakes.FakeKernel().pf("enp1s0")
        for mode, name in (
            (EswitchMode.LEGACY, "mlx5"),
            (EswitchMode.SWITCHDEV, "mlx5 (switchdev)"),
        ):
            pf = dataclasses.replace(pf, driver="mlx5_core", eswitch=mode)
            row = families.Families().of(pf)
            self.assertEqual(name, row.name)
            for each in (Attribute.SPOOFCHK, Attribute.TRUST, Attribute.VLAN):
                has = row.supports(each) is Support.YES
                self.assertIs(mode is EswitchMode.LEGACY, has)

    def test_each_row_says_why_not(self):
        for row in families.BUILT_IN:
            lacking = {
                each
                for each, support in row.support.items()
                if support is Support.NO
            }
            self.assertEqual(lacking, set(row.why_not), row.name)

    def test_filters_that_all_vfs_share(self):
        shared = MacFilters(each=3, shared=20)
        self.assertEqual(
            [3, 3, 1, 0],
            [shared.budget(vfs) for vfs in (1, 5, 7, 20)],
        )
        self.assertEqual(20, MacFilters(shared=20).budget(0))
        self.assertIsNone(MacFilters().budget(4))
