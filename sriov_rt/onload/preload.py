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


"""Can a library be preloaded into what an image starts? Pure."""

from collections.abc import Iterator

from sriov_rt.onload.elf import Elf
from sriov_rt.onload.sentences import reason
from sriov_rt.reason import Reason

#: What musl's loader and library are called.
_MUSL = ("ld-musl-", "libc.musl-")

#: Beside versions, what of libc a file can need by name: relative
#: relocations (glibc 2.36, elf/dl-version.c).
_ABI = "GLIBC_ABI_"


def why_not_preload(
    init: Elf,
    library: Elf,
    libc: Elf | None,
    *,
    init_path: str = "/sbin/init",
    library_path: str = "libonload.so",
) -> tuple[Reason, ...]:
    """Return the Reasons against a preload; none if it can be done.

    :param init: the program that the image starts with.
    :param library: what is to be preloaded.
    :param libc: the image's ``libc.so.6``, None if it has none.
    :param init_path: for the sentences, as are the paths that follow.
    """
    musl = _musl(init)
    if musl is not None:
        return (reason("onload_musl", found=musl),)
    if init.is_static:
        return (reason("onload_init_static", init=init_path),)
    if init.architecture != library.architecture:
        found = reason(
            "onload_other_architecture",
            init=init_path,
            architecture=init.architecture,
            library=library_path,
            wanted=library.architecture,
        )
        return (found,)
    return tuple(_glibc(library, libc, library_path))


def _musl(init: Elf) -> str | None:
    for each in (init.interpreter or "", *init.needed):
        name = each.rpartition("/")[2]
        if name.startswith(_MUSL):
            return name
    return None


def _glibc(
    library: Elf, libc: Elf | None, library_path: str
) -> Iterator[Reason]:
    if libc is None or libc.glibc is None:
        yield reason("onload_libc_missing")
        return
    floor = library.glibc_floor
    missing = {
        each.name
        for each in library.versions
        if each.name.startswith(_ABI) and each.name not in libc.defines
    }
    if missing or (floor is not None and floor > libc.glibc):
        yield reason(
            "onload_glibc_floor",
            library=library_path,
            floor=" and ".join(
                [*([dotted(floor)] if floor else []), *sorted(missing)]
            ),
            glibc=dotted(libc.glibc),
        )


def dotted(version: tuple[int, ...]) -> str:
    """Return a version as it is written, such as ``2.34``."""
    return ".".join(map(str, version))
