# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Which family a PF is of, by what the kernel says of it."""

import logging
import types
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import Self

import stevedore

from sriov_rt.nic import families
from sriov_rt.nic.family import Family
from sriov_rt.nic.model import Pf
from sriov_rt.parse.pci import PciId

LOG = logging.getLogger(__name__)

NAMESPACE = "sriov_rt.nic_families"


class Families:
    """The rows that are known.

    :param rows: a later one takes the place of an earlier one of its name.
    """

    def __init__(self, rows: Iterable[Family] = families.BUILT_IN) -> None:
        named = {each.name: each for each in rows}
        self.rows: Mapping[str, Family] = types.MappingProxyType(named)

    @classmethod
    def installed(cls) -> Self:
        """Return the rows of this package and those that others install.

        A row that cannot be loaded is passed over with a warning: its NICs
        are then probed as those of no row are.
        """

        def warn(
            manager: object, entry_point: object, error: BaseException
        ) -> None:
            name = getattr(entry_point, "name", str(entry_point))
            LOG.warning(
                "the NIC family '%s' cannot be loaded (%s: %s); its NICs are "
                "probed; reinstall the package that it comes with",
                name,
                type(error).__name__,
                error,
            )

        manager: stevedore.ExtensionManager[Any] = stevedore.ExtensionManager(
            NAMESPACE, on_load_failure_callback=warn
        )
        found: list[Family] = []
        for each in manager:
            if isinstance(each.plugin, Family):
                found.append(each.plugin)
            else:
                warn(manager, each, TypeError("not a Family"))
        return cls((*families.BUILT_IN, *found))

    def of(self, pf: Pf) -> Family:
        """Return the family of a PF; the generic one if it is of none.

        The driver tells; the PCI id only where no row has the driver.
        """
        for row in self.rows.values():
            if pf.driver is not None and pf.driver in row.drivers:
                return row
        ids = (
            PciId.parse(f"{pf.vendor}:{pf.product}"),
            PciId.parse(pf.vendor),
        )
        for row in self.rows.values():
            if not row.products.isdisjoint(ids):
                return row
        return families.GENERIC
