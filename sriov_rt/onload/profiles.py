# SPDX-License-Identifier: Apache-2.0

"""Onload profiles: the operator's files, with all that they import."""

import dataclasses
import hashlib
import types
from collections.abc import Mapping
from typing import Any

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.onload import grammar
from sriov_rt.onload import variables
from sriov_rt.onload.errors import ProfileMissing
from sriov_rt.onload.errors import ProfileNotAllowed
from sriov_rt.onload.errors import ProfileRejected
from sriov_rt.onload.errors import ProfileUnreadable
from sriov_rt.parse import errors

#: The deepest chain of imports; Onload 9.2's profiles have three levels
#: (nginx-webserver-balanced, throughput, throughput_base).
MAX_DEPTH = 8

#: The most files of one profile.
MAX_FILES = 32

SUFFIX = ".opf"

#: Suffix of files that only other profiles import.
FRAGMENT = ".opf-fragment"


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A profile's file.

    :param path: its path, for messages.
    """

    path: str
    text: str


class Directories:
    """Directories of profiles, of which the first with a profile counts.

    :param paths: absolute paths, checked by :mod:`sriov_rt.onload.settings`.
    """

    def __init__(self, root: Root, paths: tuple[str, ...]) -> None:
        self._root = root
        self._paths = paths

    @property
    def places(self) -> tuple[str, ...]:
        """The directories."""
        return self._paths

    def read(self, name: str, *, fragment: bool) -> Text | None:
        """Return the file of a profile, None if there is none.

        :param fragment: whether a ``.opf-fragment`` is accepted too.
        :raises ProfileUnreadable: if it can't be read.
        :raises ValueError: for an invalid name, which callers have excluded.
        """
        if not grammar.is_name(name):
            raise ValueError(name)
        suffixes = (SUFFIX, FRAGMENT) if fragment else (SUFFIX,)
        for directory in self._paths:
            for suffix in suffixes:
                path = f"{directory}/{name}{suffix}"
                # Any error other than absence is raised by the reading.
                if self._root.exists(path.lstrip("/")) is not False:
                    return self._read(path)
        return None

    def _read(self, path: str) -> Text:
        text = self._root.read_text(
            path.lstrip("/"), grammar.MAX_PROFILE, may_be_empty=True
        )
        if isinstance(text, Unknown):
            raise ProfileUnreadable(path, text.reason)
        return Text(path, text)


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """A file that is part of a profile.

    :param sha256: SHA-256 of its text, 64 hex digits.
    """

    path: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """Settings of a profile.

    :param variables: name to value, by name.
    :param files: its files, in the order in which they were read.
    """

    name: str
    variables: Mapping[str, str]
    files: tuple[File, ...]

    @property
    def sha256(self) -> str:
        """Digest of its settings: SHA-256 of its lines, 64 hex digits."""
        lines = (f"{name}={text}\n" for name, text in self.variables.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def to_plain(self) -> dict[str, Any]:
        """Return the profile as a JSON object."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "variables": dict(self.variables),
            "files": [dataclasses.asdict(each) for each in self.files],
        }


def resolve(
    name: str,
    directories: Directories,
    allowed: frozenset[str],
    also: frozenset[str] = frozenset(),
) -> Profile:
    """Return a profile with all that it imports.

    As in Onload, the first setting of a variable counts (``onload_set`` in its
    ``scripts/onload`` skips variables that are set).

    :param name: the requested name; nothing is read unless it is allowed.
    :param allowed: names that may be requested. An allowed profile may import
        profiles that are not among them.
    :param also: withheld variables that it may set.
    :raises ProfileNotAllowed: for any other name.
    :raises ProfileMissing: if there is no such file.
    :raises ProfileUnreadable: if it can't be read.
    :raises ProfileRejected: for a line that would need a shell, a variable
        that may not be set, or imports that are circular or too deep.
    """
    if name not in allowed or not grammar.is_name(name):
        raise ProfileNotAllowed(name)
    found = directories.read(name, fragment=False)
    if found is None:
        raise ProfileMissing(name, directories.places)
    walk = _Walk(directories, also)
    walk.enter(name, found, ())
    ordered = dict(sorted(walk.values.items()))
    return Profile(
        name, types.MappingProxyType(ordered), tuple(walk.files.values())
    )


class _Walk:
    """The reading of one profile."""

    def __init__(self, directories: Directories, also: frozenset[str]) -> None:
        self._directories = directories
        self._also = also
        self._left = MAX_FILES
        self.values: dict[str, str] = {}
        self.files: dict[str, File] = {}

    def enter(self, name: str, found: Text, above: tuple[str, ...]) -> None:
        """Read one file and those that it imports."""
        self._left -= 1
        digest = hashlib.sha256(found.text.encode()).hexdigest()
        self.files.setdefault(found.path, File(found.path, digest))
        inside = (*above, name)
        for each in grammar.parse(found.text, found.path):
            if isinstance(each, grammar.Import):
                self._import(each, found.path, inside)
            else:
                self._set(each, found.path)

    def _set(self, setting: grammar.Setting, path: str) -> None:
        try:
            variables.check(setting.name, setting.value, self._also)
        except errors.ParseError as error:
            problem = str(error).rstrip(".")
            raise ProfileRejected(path, setting.line, problem) from None
        self.values.setdefault(setting.name, setting.value)

    def _import(
        self, imported: grammar.Import, path: str, inside: tuple[str, ...]
    ) -> None:
        problem = None
        if imported.name in inside:
            circle = " > ".join((*inside, imported.name))
            problem = f"imports go round: {circle}"
        elif len(inside) >= MAX_DEPTH:
            problem = f"imports more than {MAX_DEPTH} deep"
        elif self._left < 1:
            problem = f"more than {MAX_FILES} imports"
        if problem is not None:
            raise ProfileRejected(path, imported.line, problem)
        found = self._directories.read(imported.name, fragment=True)
        if found is None:
            problem = f"imports {imported.name}, which is in no directory"
            raise ProfileRejected(path, imported.line, problem)
        self.enter(imported.name, found, inside)
