# SPDX-License-Identifier: Apache-2.0

"""A container like an engine's: with an overlay as root and its own pids.

Files written in it are gone with it, except in mounted directories.
"""

import pathlib
from collections.abc import Iterable

#: $1 is an empty directory, $2 the machine's directories to mount at the same
#: paths, and the rest is run in the container, perhaps after variables.
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

    :param empty: an empty directory for the container's root.
    :param shared: directories without spaces in their names.
    :param command: the command; it may begin with NAME=VALUE for variables.
    """
    return (
        *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
        *("sh", "-c", _SCRIPT, "sh", str(empty)),
        " ".join(str(each) for each in shared),
        *command,
    )
