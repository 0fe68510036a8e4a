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

"""Values that a domain's document has: checked, and bounded."""

import functools
from collections.abc import Iterable
from collections.abc import Iterator
from typing import NoReturn

from sriov_rt import exceptions
from sriov_rt.guest.elements import Element
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import numbers
from sriov_rt.parse import topology

#: The most CPUs that the cpusets of one kind name together: as many pairs of
#: vCPU and pCPU as :mod:`sriov_rt.parse.topology` takes.
MAX_PAIRS = topology.MAX_PAIRS

#: Texts shorter than this are read in a shorter way.
_SHORT = 8

CpuSet = frozenset[int]


class DomainRejected(exceptions.SriovRtError, ValueError):
    """A document is no libvirt domain, or not one that is safe to read.

    :param problem: what is wrong with it, a clause.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the domain XML is rejected: {self.problem}; give the document "
            "as libvirt or Nova wrote it"
        )


def cpuset(text: str) -> CpuSet:
    """Return the CPUs of a ``cpuset`` attribute, as libvirt reads them.

    :param text: such as ``0-3,^1``. libvirt counts an exclusion against what
        stands before it alone (virBitmapParse in src/util/virbitmap.c), so
        none may stand before a CPU here.
    :raises DomainRejected: if it is none, or empty.
    """
    if len(text) < _SHORT and (short := _short(text)):
        return short
    _, exclusion, rest = text.partition("^")
    if exclusion and not all(
        each.lstrip().startswith("^") for each in rest.split(",")[1:]
    ):
        raise DomainRejected("a CPU after an exclusion in a cpuset")
    try:
        cpus = cpulist.parse_cpu_list(text, exclusions=bool(exclusion))
    except errors.ParseError as error:
        raise DomainRejected(str(error)) from None
    return cpus or _no_cpu(text)


def cpusets(
    elements: Iterable[Element], attribute: str
) -> Iterator[tuple[Element, CpuSet]]:
    """Yield elements and the CPUs that an attribute of each names.

    :raises DomainRejected: where one is no cpuset, or all of them together
        name more than MAX_PAIRS.
    """
    pairs = 0
    for each in elements:
        cpus = cpuset(each.get(attribute, ""))
        pairs += len(cpus)
        if pairs > MAX_PAIRS:
            raise DomainRejected(f"cpusets of more than {MAX_PAIRS} CPUs")
        yield each, cpus


def number(text: str, low: int, high: int) -> int:
    """Return the number that a text is.

    :raises DomainRejected: if it is none, or not from ``low`` to ``high``.
    """
    if len(text) < _SHORT and _is_number(text):
        value = int(text)
        if low <= value <= high:
            return value
    try:
        return numbers.parse_int(text.strip(), "number", low, high)
    except errors.ParseError as error:
        raise DomainRejected(str(error)) from None


def count(element: Element | None, absent: int, high: int) -> int:
    """Return the number in an element, ``absent`` if that is None.

    :raises DomainRejected: as :func:`number`; ``absent`` is the least.
    """
    if element is None:
        return absent
    return number(element.text or "", absent, high)


@functools.lru_cache(128)
def _short(text: str) -> CpuSet | None:
    # Nearly every cpuset is a CPU or a range, and nearly every guest of a
    # host has the same ones.
    first, dash, last = text.partition("-")
    if len(first) > 3 or len(last) > 3:
        return None
    if _is_number(first) and (not dash or _is_number(last)):
        return frozenset(range(int(first), int(last or first) + 1))
    return None


def _is_number(text: str) -> bool:
    return text.isdigit() and text.isascii()


def _no_cpu(text: str) -> NoReturn:
    raise DomainRejected(f"no CPU in the cpuset {text[:80]!r}")
