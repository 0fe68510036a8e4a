# SPDX-License-Identifier: Apache-2.0

"""Check whether a library can be preloaded into an image's program."""

import dataclasses
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.onload import elf
from sriov_rt.onload.elf import Elf
from sriov_rt.onload.errors import NotElf
from sriov_rt.onload.sentences import reason
from sriov_rt.reason import Reason

#: Prefixes of the names of musl's loader and library.
_MUSL = ("ld-musl-", "libc.musl-")

#: Prefix of libc features that a file can need besides versions: relative
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

    :param init: the first program of the image.
    :param library: the library to preload.
    :param libc: the image's ``libc.so.6``, None if it has none.
    :param init_path: path of ``init``, for the sentences.
    :param library_path: path of ``library``, for the sentences.
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
    """Return a version as text, such as ``2.34``."""
    return ".".join(map(str, version))


#: Directories in which loaders look for libc without a cache, the
#: architecture's first.
LIBRARY_DIRECTORIES = (
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "usr/lib64",
    "lib",
    "usr/lib",
)
LIBC = "libc.so.6"

#: The most scripts that may interpret each other by ``#!`` lines (4 by
#: BINPRM_MAX_RECURSION in fs/exec.c until Linux 5.10, 5 since).
MAX_SCRIPTS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """An ELF file that could not be read, and why: a clause."""

    problem: str


def read_elf(root: Root, path: str) -> Elf | Unreadable:
    """Return the properties of an ELF file.

    :param path: path below the root; links cannot leave it.
    """
    file = root.open_file(path.lstrip("/"))
    if isinstance(file, Unknown):
        return Unreadable(file.reason)
    with file:

        def read_at(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(size)

        try:
            return elf.read(read_at)
        except NotElf as error:
            return Unreadable(f"{path}: {error.problem}")
        except OSError as error:
            return Unreadable(f"{path}: {error.strerror}")


def program(root: Root, path: str) -> Elf | Unreadable:
    """Return the ELF file that runs when a path is started.

    :param path: a program, or a script, whose first line names the program.
    """
    for _ in range(MAX_SCRIPTS):
        interpreter = _script(root, path)
        if interpreter is None:
            return read_elf(root, path)
        path = interpreter
    return Unreadable(f"{path}: a script of a script of a script")


def _script(root: Root, path: str) -> str | None:
    file = root.open_file(path.lstrip("/"))
    if isinstance(file, Unknown):
        return None
    with file:
        try:
            # BINPRM_BUF_SIZE of include/uapi/linux/binfmts.h.
            head = file.read(256)
        except OSError:
            # Reading it as ELF meets the same error, and reports it.
            return None
    if not head.startswith(b"#!"):
        return None
    words = head[2:].partition(b"\n")[0].split()
    return words[0].decode("utf-8", "backslashreplace") if words else None


def libc(root: Root, like: Elf) -> Elf | None:
    """Return the image's libc that a program like this would load."""
    for directory in LIBRARY_DIRECTORIES:
        found = read_elf(root, f"{directory}/{LIBC}")
        if isinstance(found, Elf) and found.architecture == like.architecture:
            return found
    return None


def why_not(
    image: Root, init: str, host: Root, library: str
) -> tuple[Reason, ...]:
    """Return why a library of the host cannot be preloaded in an image.

    :param init: path in the image of its first program.
    :param library: path on the host of the library to preload.
    """
    found = read_elf(host, library)
    if isinstance(found, Unreadable):
        return (
            reason(
                "onload_library_unreadable",
                library=library,
                problem=found.problem,
            ),
        )
    started = program(image, init)
    if isinstance(started, Unreadable):
        return (
            reason(
                "onload_init_unreadable", init=init, problem=started.problem
            ),
        )
    return why_not_preload(
        started,
        found,
        libc(image, started),
        init_path=init,
        library_path=library,
    )
