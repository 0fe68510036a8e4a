# SPDX-License-Identifier: Apache-2.0

"""Images of containers: a shell, a program with sockets, the machine's libc.

Nova mounts such an image through a loop device, so it is a file system
without partitions.
"""

import pathlib
import shutil
import stat
import tempfile

from tests.testbed.waiting import run

#: Lines on the container's console before and after its program runs.
READY = "SRIOV-RT-CONTAINER-READY"
DONE = "SRIOV-RT-CONTAINER-DONE"
#: Sockets that the program opens.
SOCKETS = 3

_PROGRAM = f"""\
#include <sys/socket.h>

int main(void)
{{
    for (int i = 0; i < {SOCKETS}; i++)
        if (socket(AF_INET, SOCK_DGRAM, 0) < 0)
            return 1;
    return 0;
}}
"""
_INIT = f"""\
#!/bin/sh
echo "{READY}"
/bin/sockets
echo "{DONE}"
while :; do sleep 60; done
"""
#: The init of an image that has no shell.
_WAIT = """\
#include <unistd.h>

int main(void)
{
    for (;;)
        pause();
}
"""

_DIRECTORIES = ("bin", "dev", "etc", "proc", "run", "sbin", "sys", "tmp")
_BYTES = 16 << 20
#: The loader in Debian's package musl, which is also its libc.
_MUSL = pathlib.Path("/lib/ld-musl-x86_64.so.1")
#: Programs for a container's network, from Debian's busybox-static.
_BUSYBOX, _NETWORK = pathlib.Path("/bin/busybox"), ("ip", "ping")


def build(file: pathlib.Path) -> None:
    """Make an image whose programs are linked with glibc.

    :param file: the image.
    :raises errors.CommandFailed: when it can't be made.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = _tree(pathlib.Path(scratch))
        for name, source in (("sh", "/bin/sh"), ("sleep", "/bin/sleep")):
            _copy(pathlib.Path(source), root / "bin" / name)
        _copy(_BUSYBOX, root / "bin" / "busybox")
        for name in _NETWORK:
            (root / "bin" / name).symlink_to("busybox")
        _compile("gcc", _PROGRAM, root / "bin" / "sockets")
        for name in ("sh", "sleep", "sockets"):
            for library in _libraries(root / "bin" / name):
                _copy(library, root / library.relative_to("/"))
        init = root / "sbin" / "init"
        init.write_text(_INIT)
        init.chmod(stat.S_IRWXU)
        _pack(root, file)


def build_musl(file: pathlib.Path) -> None:
    """Make an image of musl, such as Alpine's.

    :param file: the image.
    :raises errors.CommandFailed: when it can't be made.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = _tree(pathlib.Path(scratch))
        _compile("musl-gcc", _WAIT, root / "sbin" / "init")
        _copy(_MUSL, root / _MUSL.relative_to("/"))
        _pack(root, file)


def _tree(root: pathlib.Path) -> pathlib.Path:
    for name in _DIRECTORIES:
        (root / name).mkdir()
    return root


def _compile(compiler: str, source: str, program: pathlib.Path) -> None:
    run(
        (compiler, "-O1", "-x", "c", "-", "-o", str(program)),
        timeout=60,
        stdin=source.encode(),
    )


def _libraries(program: pathlib.Path) -> set[pathlib.Path]:
    """Return the libraries of a program, including its loader."""
    words = run(("ldd", str(program)), timeout=20).split()
    return {pathlib.Path(each) for each in words if each.startswith("/")}


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _pack(root: pathlib.Path, file: pathlib.Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.truncate(_BYTES)
    root.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP)
    run(
        ("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(file)),
        timeout=60,
    )
