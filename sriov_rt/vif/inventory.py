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

"""Inventory of the network links of this host, in all its namespaces."""

import errno
import os

from sriov_rt.vif import errors
from sriov_rt.vif import namespaces
from sriov_rt.vif.edge import Link
from sriov_rt.vif.places import Place
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling


def here() -> list[Link]:
    """Return the links of the caller's namespace."""
    with opened(None) as place, telling("links", "list"):
        return place.all()


def everywhere(*, thorough: bool = False) -> list[Link]:
    """Return the links of all namespaces, each entered; it takes its time.

    A namespace that goes meanwhile has none.

    :param thorough: of those too that have no name and no process. The
        kernel numbers a namespace in the one that an interface left for it
        (__dev_change_net_namespace in net/core/dev.c), so those that a
        tenant has moved something to are found by number from its own.
    """
    found = here()
    with namespaces.opened(None) as own:
        identity = namespaces.identity(own)
        others = list(namespaces.others(identity, thorough=thorough))
        known = [*(each.path for each in others), namespaces.OWN]
        if thorough:
            with opened(None) as place, telling("links", "list"):
                found += _numbered(place, known)
        for each in others:
            try:
                with (
                    opened(each.name, each.identity, each.path) as place,
                    telling(each.name, "list its links"),
                ):
                    found += place.all()
                    if thorough:
                        found += _numbered(place, known)
            except errors.NoSuchNamespace:
                continue
    return found


def _numbered(place: Place, known: list[str]) -> list[Link]:
    """Return the links of namespaces that only their numbers lead to.

    :param known: files of those that are listed by themselves.
    """
    numbers = place.numbers()
    for each in known if numbers else ():
        try:
            descriptor = namespaces.open_file(each, each)
        except errors.VifError:
            continue
        try:
            number = place.number(descriptor)
        finally:
            os.close(descriptor)
        numbers.discard(-1 if number is None else number)
    found = []
    for number in numbers:
        try:
            found += place.of_number(number)
        except OSError as error:
            # It has ended meanwhile.
            if error.errno != errno.EINVAL:
                raise
    return found
