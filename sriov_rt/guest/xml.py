# SPDX-License-Identifier: Apache-2.0

"""Elements of libvirt's XML, and the values of their attributes."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import cast

from lxml import etree

from sriov_rt import exceptions
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import numbers
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.pinning import MAX_PAIRS

Element = etree._Element  # noqa: SLF001

_TEXT = etree.XPath("string()", smart_strings=False)


def text_of(element: Element | None) -> str:
    """Return the text of an element as libvirt reads it; empty if None.

    That is XPath's ``string()``: comments and processing instructions are
    left out, and the text around them is joined.
    """
    # lxml types what an XPath can return as a union.
    return "" if element is None else cast(str, _TEXT(element))


def attributes(element: Element) -> dict[str, str]:
    """Return the attributes of an element."""
    # lxml returns only str for a document that it parsed from XML.
    return cast(dict[str, str], dict(element.items()))


def append(parent: Element, tag: str, given: Mapping[str, str]) -> Element:
    """Add an element at the end of another, indented like its siblings."""
    last = parent[-1] if len(parent) else None
    added = etree.SubElement(parent, tag, dict(given))
    if last is not None:
        added.tail = last.tail
        last.tail = parent.text
    return added


def remove(parent: Element, gone: Iterable[Element]) -> None:
    """Remove children of an element; keep the indentation of its end."""
    closing = parent[-1].tail
    for each in gone:
        parent.remove(each)
    if len(parent):
        parent[-1].tail = closing
    else:
        parent.text = closing


class DomainRejected(exceptions.SriovRtError, ValueError):
    """A document is not a libvirt domain, or is unsafe to read.

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

    :param text: such as ``0-3,^1,6``: from left to right, each part adds
        CPUs, or with ``^`` removes them (virBitmapParse in
        src/util/virbitmap.c).
    :raises DomainRejected: if it is invalid or empty.
    """
    cpus = CpuSet()
    try:
        errors.check_length("cpuset", text, cpulist.MAX_TEXT)
        for part in text.split(","):
            kept = part.strip().removeprefix("^")
            named = cpulist.parse_cpu_list(kept)
            cpus = cpus - named if kept != part.strip() else cpus | named
    except errors.ParseError as error:
        raise DomainRejected(str(error)) from None
    if not cpus:
        raise DomainRejected(f"no CPU in the cpuset {text[:80]!r}")
    return cpus


def cpusets(
    elements: Iterable[Element], attribute: str
) -> Iterator[tuple[Element, CpuSet]]:
    """Yield elements and the CPUs that an attribute of each names.

    :raises DomainRejected: if one is not a cpuset, or all of them together
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
    """Return a text's number.

    :raises DomainRejected: if it is not a number from ``low`` to ``high``.
    """
    try:
        return numbers.parse_int(text.strip(), "number", low, high)
    except errors.ParseError as error:
        raise DomainRejected(str(error)) from None


def count(element: Element | None, absent: int, high: int) -> int:
    """Return the number in an element, ``absent`` if that is None.

    :raises DomainRejected: as :func:`number`; ``absent`` is the minimum.
    """
    if element is None:
        return absent
    return number(text_of(element), absent, high)
