# SPDX-License-Identifier: Apache-2.0

"""A container as an engine makes it: an overlay for a root, its own pids.

What is written in it is gone with it, apart from what is mounted.
"""

import pathlib
from collections.abc import Iterable

#: $1 is an empty directory, $2 what of the machine is mounted at the same
#: place, and the rest is run in the container, with variables before it.
_SCRIPT = """
set -e
place=$1 shared=$2
shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs "$place"
mkdir "$place/upper" "$place/work" "$place/root"
mount -t overlay overlay "$place/root" -o \
"lowerdir=/,upperdir=$place/upper,workdir=$place/work"
mount -t proc proc "$place/root/proc"
for each in $shared
do
    mkdir -p "$place/root$each"
    mount --rbind "$each" "$place/root$each"
done
exec chroot "$place/root" env "$@"
"""


def inside(
    empty: pathlib.Path, shared: Iterable[pathlib.Path], *command: str
) -> tuple[str, ...]:
    """Return the command that runs another one in a container, as root.

    :param empty: a directory that the container's root goes below.
    :param shared: directories without spaces in their names.
    :param command: may begin with NAME=VALUE for variables.
    """
    return (
        *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
        *("sh", "-c", _SCRIPT, "sh", str(empty)),
        " ".join(str(each) for each in shared),
        *command,
    )
