# SPDX-License-Identifier: Apache-2.0

"""Loop devices, which the machine and the cloud share.

They belong to no namespace. If a process that had mounted one was killed, it
stays attached when everything else of a cloud is gone.
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
            # It has been detached meanwhile.
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
