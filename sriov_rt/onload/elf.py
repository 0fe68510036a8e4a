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


"""What an ELF file says of itself, as values."""

import dataclasses
from collections.abc import Iterable

from sriov_rt.parse import numbers
from sriov_rt.parse.errors import ParseError

#: e_machine to what operators call it.
MACHINES = {
    3: "i386",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """A version of symbols that a file needs of another.

    :param file: such as ``libc.so.6``.
    :param name: such as ``GLIBC_2.34``.
    """

    file: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Elf:
    """A program or a shared library.

    :param bits: 32 or 64.
    :param order: ``little`` or ``big`` endian.
    :param machine: its name, or the number of one that has none here.
    :param interpreter: the path of its dynamic loader (PT_INTERP).
    :param is_dynamic: whether it has a dynamic section.
    :param needed: the libraries that it is linked to (DT_NEEDED).
    :param versions: those of symbols that it needs (.gnu.version_r).
    :param defines: names of versions that it has itself (.gnu.version_d).
    """

    bits: int
    order: str
    machine: str
    interpreter: str | None
    is_dynamic: bool
    soname: str | None
    needed: tuple[str, ...]
    versions: tuple[Version, ...]
    defines: tuple[str, ...]

    @property
    def is_static(self) -> bool:
        """Whether a program runs without a loader, and so without preload."""
        return self.interpreter is None

    @property
    def architecture(self) -> str:
        """What has to be alike for two files to be in one process."""
        return f"{self.machine} {self.bits}-bit {self.order}-endian"

    @property
    def glibc_floor(self) -> tuple[int, ...] | None:
        """The oldest glibc that has all that it needs; None if it needs none.

        Versions such as (2, 34).
        """
        return _newest(each.name for each in self.versions)

    @property
    def glibc(self) -> tuple[int, ...] | None:
        """The version of glibc that it is, None if it is none."""
        return _newest(self.defines)


def _newest(names: Iterable[str]) -> tuple[int, ...] | None:
    found = [
        version
        for each in names
        if each.startswith("GLIBC_")
        and (version := _dotted(each.removeprefix("GLIBC_")))
    ]
    return max(found, default=None)


def _dotted(text: str) -> tuple[int, ...] | None:
    # GLIBC_PRIVATE and GLIBC_ABI_DT_RELR are no versions.
    parts = text.split(".")
    try:
        return tuple(
            numbers.parse_int(each, "version", 0, 9999) for each in parts[:4]
        )
    except ParseError:
        return None
