# SPDX-License-Identifier: Apache-2.0

"""A stand-in for Onload's library, and programs to preload it into.

It counts the calls of socket() that it sees and accelerates nothing. Its
soname says that it is a stand-in, so that every output does.
"""

import contextlib
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

SONAME = "libonload-stand-in.so"

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/socket.h>

static int calls;

int socket(int domain, int type, int protocol)
{
    int (*real)(int, int, int) = dlsym(RTLD_NEXT, "socket");
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    return real(domain, type, protocol);
}

__attribute__((destructor)) static void say(void)
{
    fprintf(stderr, "stand-in for libonload.so: %d socket calls\n", calls);
}
"""

#: Opens three sockets, says so, and waits for the end of its input. As the
#: init of a container, whose input is at an end, it waits for half a minute.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    for (int i = 0; i < 3; i++)
        if (socket(AF_INET, SOCK_DGRAM, 0) < 0)
            return 1;
    FILE *out = argc > 1 ? fopen(argv[1], "w") : stdout;
    for (char **each = environ; *each; each++)
        fprintf(out, "%s\n", *each);
    fprintf(out, "ready\n");
    fflush(out);
    if (argc > 1) {
        sleep(30);
        return 0;
    }
    while (getchar() != EOF)
        ;
    return 0;
}
"""


def missing() -> str | None:
    """Return why nothing can be compiled, None if it can."""
    return None if shutil.which("gcc") else "gcc is not installed"


def build(place: pathlib.Path, name: str, source: str, *words: str) -> str:
    """Compile C and return the path of the result.

    :raises subprocess.CalledProcessError: with the output of gcc.
    """
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-O1", "-x", "c", "-", "-o", str(path), *words],
        input=source,
        text=True,
        check=True,
        capture_output=True,
        start_new_session=True,
    )
    return str(path)


def library(place: pathlib.Path) -> str:
    """Compile the stand-in."""
    words = ("-shared", "-fPIC", f"-Wl,-soname,{SONAME}", "-ldl")
    return build(place, "lib/libonload.so", LIBRARY, *words)


def copy_libraries(program: str, image: pathlib.Path) -> None:
    """Put the libraries that a program needs into an image."""
    found = subprocess.run(
        ["ldd", program],
        capture_output=True,
        start_new_session=True,
        text=True,
        check=True,
    ).stdout
    for word in found.split():
        if word.startswith("/"):
            target = image / word.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, target)


@contextlib.contextmanager
def running(
    program: str, environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a program until the block ends; yield it and its output."""
    process = subprocess.Popen(
        [program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    said = []
    assert process.stdin and process.stdout and process.stderr
    try:
        for line in process.stdout:
            if line == "ready\n":
                break
            said.append(line.rstrip("\n"))
        yield process, said
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()
        process.stderr.close()
