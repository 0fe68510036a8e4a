# SPDX-License-Identifier: Apache-2.0

"""Requests of guests by their names: ``/etc/sriov_rt/guests.conf``.

A section's heading is a pattern of names, as in a shell; its lines are extra
specs without their namespace. The first section that matches a guest's name
applies. If a line cannot be read, all guests that match its section are
refused: no guest starts without what the operator meant to request.
"""

import dataclasses
import fnmatch
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.request import guest_request
from sriov_rt.request.guest_request import GuestRequest

#: Requests of libvirt's guests by their names; read only.
PATH = "etc/sriov_rt/guests.conf"

#: The longest file, in bytes.
MAX_FILE = 256 * 1024

#: The longest pattern, in characters; libvirt limits a name only by the
#: longest name of a file.
MAX_PATTERN = 255

_WHAT = "guests.conf"


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """Guests of one pattern.

    :param values: values by name.
    :param problem: problem of the first line that can't be read; empty if
        there is none.
    """

    pattern: str
    values: dict[str, str]
    problem: str = ""


def requested(root: Root, name: str) -> GuestRequest | None:
    """Return what the operator requests for a guest, None if nothing.

    A file that is missing, or that the caller may not read, requests nothing:
    a guest of a session daemon is the user's own.

    :raises ParseError: if the section of the guest can't be read.
    """
    text = root.read_text(PATH, MAX_FILE, may_be_empty=True)
    if isinstance(text, Unknown):
        return None
    for each in sections(text):
        if fnmatch.fnmatchcase(name, each.pattern):
            if each.problem:
                raise errors.ParseError(_WHAT, each.pattern, each.problem)
            return guest_request.from_values(each.values)
    return None


def sections(text: str) -> Iterator[Section]:
    """Yield the sections of a file, in their order."""
    section: Section | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if not words or words[0] in "#;":
            continue
        if words[0] == "[":
            if section is not None:
                yield section
            section = _begun(words, number)
        elif section is not None and not section.problem:
            section = _continued(section, words, number)
        # A line before the first section applies to no guest.
    if section is not None:
        yield section


def _begun(words: str, number: int) -> Section:
    pattern = words.removeprefix("[").removesuffix("]")[:MAX_PATTERN]
    if words[-1] == "]" and pattern == words[1:-1]:
        return Section(pattern, {})
    return Section(pattern, {}, f"line {number}: [PATTERN] expected")


def _continued(section: Section, words: str, number: int) -> Section:
    name, equals, value = (each.strip() for each in words.partition("="))
    if equals and name and name not in section.values:
        return dataclasses.replace(
            section, values={**section.values, name: value}
        )
    problem = f"line {number}: KEY = VALUE expected, each key once"
    return dataclasses.replace(section, problem=problem)
