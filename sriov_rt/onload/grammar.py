# SPDX-License-Identifier: Apache-2.0

"""Grammar of Onload profiles (``*.opf``), read as data.

Onload sources profiles into a shell. This parser accepts only the part of the
shell's language that profiles need to set variables: comments, blank lines,
``onload_set NAME VALUE``, ``onload_set NAME=VALUE`` and
``onload_import NAME``. Any other line is refused with its number.
"""

import dataclasses
import re
from collections.abc import Iterator

from sriov_rt.onload.errors import ProfileRejected

#: The longest profile, in bytes; Onload 9.2's longest has 5,300.
MAX_PROFILE = 64 * 1024

#: The longest line, in characters.
MAX_LINE = 1024

#: Names of profiles: a letter or digit first, and no two dots in a row, so
#: that a name is always one part of a path.
_NAME = r"[A-Za-z0-9](?:\.?[A-Za-z0-9_-]){0,63}"
NAME = re.compile(_NAME, re.ASCII)

_BLANK = "[ \t]"
_COMMENT = re.compile(rf"{_BLANK}*(?:#.*)?")
# Text that has no meaning to a shell and is not split by one.
_PLAIN = r"[A-Za-z0-9_.:=,+*/@%-]{1,256}"
_VALUE = rf"(?:{_PLAIN}|\"{_PLAIN}\"|'{_PLAIN}')"
_END = rf"{_BLANK}*(?:{_BLANK}#.*)?"
_SET = re.compile(
    rf"{_BLANK}*onload_set{_BLANK}+"
    rf"(?P<name>[A-Za-z_][A-Za-z0-9_]{{0,63}})"
    rf"(?:{_BLANK}+(?P<spaced>{_VALUE})|=(?P<joined>[A-Za-z0-9_.:,+*-]{{1,256}}))"
    rf"{_END}",
    re.ASCII,
)
_IMPORT = re.compile(
    rf"{_BLANK}*onload_import{_BLANK}+(?P<name>{_NAME}){_END}", re.ASCII
)

#: Text in a refused line to its description; the first that is found counts.
_SHELL = (
    ("`", "a command substitution"),
    ("$((", "an arithmetic expansion"),
    ("$(", "a command substitution"),
    ("$", "an expansion of a variable"),
    ("\\", "a backslash"),
    ("|", "a pipe"),
    (";", "a second command"),
    ("&", "a second command"),
    ("<", "a redirection"),
    (">", "a redirection"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """``onload_set``: a variable and its value, unquoted."""

    line: int
    name: str
    value: str


@dataclasses.dataclass(frozen=True, slots=True)
class Import:
    """``onload_import``: the name of another profile or fragment."""

    line: int
    name: str


def is_name(text: str) -> bool:
    """Return whether a text is valid as the name of a profile."""
    return NAME.fullmatch(text) is not None


def parse(text: str, path: str) -> tuple[Setting | Import, ...]:
    """Return the statements of a profile, in their order.

    :param text: text of the file, at most MAX_PROFILE bytes.
    :param path: path of the file, for the error.
    :raises ProfileRejected: for the first line that would need a shell.
    """
    if len(text) > MAX_PROFILE:
        raise ProfileRejected(path, 1, f"more than {MAX_PROFILE} bytes")
    # Not splitlines(), which splits at characters that end no shell line.
    return tuple(_statements(text.split("\n"), path))


def _statements(lines: list[str], path: str) -> Iterator[Setting | Import]:
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            problem = f"more than {MAX_LINE} characters in the line"
            raise ProfileRejected(path, number, problem)
        if any(ord(each) < 32 and each != "\t" for each in line):
            problem = "a control character in the line"
            raise ProfileRejected(path, number, problem)
        if _COMMENT.fullmatch(line):
            continue
        yield _statement(number, line, path)


def _statement(number: int, line: str, path: str) -> Setting | Import:
    if found := _SET.fullmatch(line):
        value = found["joined"] or found["spaced"].strip("\"'")
        return Setting(number, found["name"], value)
    if found := _IMPORT.fullmatch(line):
        return Import(number, found["name"])
    raise ProfileRejected(path, number, _problem(line))


def _problem(line: str) -> str:
    code = line.strip(" \t")
    found = [(code.find(each), what) for each, what in _SHELL if each in code]
    if found:
        _, what = min(found, key=lambda each: each[0])
        return f"{what}, which needs a shell, in {code[:60]!r}"
    word = code.replace("\t", " ").partition(" ")[0].partition("=")[0]
    if word in ("onload_set", "onload_import"):
        return f"{word} with something other than one value: {code[:60]!r}"
    return f"neither onload_set nor onload_import: {code[:60]!r}"
