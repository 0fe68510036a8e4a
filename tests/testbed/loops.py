# SPDX-License-Identifier: Apache-2.0

"""Loop devices: the machine has them in common with the cloud.

They belong to no namespace: one whose file was mounted by a process that was
killed stays attached when everything else of a cloud has gone.
"""

import pathlib

from tests.testbed.waiting import run

_BLOCK = pathlib.Path("/sys/block")


def attached(below: pathlib.Path) -> dict[str, str]:
    """Return the loop devices whose files are below a directory.

    :param below: the directory, such as a cloud's state directory.
    :returns: the file of each, by the device's name, as in "loop0".
    """
    found = {}
    for path in sorted(_BLOCK.glob("loop*/loop/backing_file")):
        try:
            file = (
                path.read_text(errors="surrogateescape")
                .rstrip("\n")
                .removesuffix(" (deleted)")
            )
        except OSError:
            # It was detached in between.
            continue
        if pathlib.PurePath(file).is_relative_to(below):
            found[path.parts[-3]] = file
    return found


def detach(below: pathlib.Path) -> None:
    """Detach the loop devices whose files are below a directory.

    :param below: the directory.
    :raises errors.CommandFailed: when one can't be detached.
    """
    for name in attached(below):
        run(("losetup", "--detach", f"/dev/{name}"), timeout=20)
