# SPDX-License-Identifier: Apache-2.0

"""The device node of a macvtap, which QEMU opens."""

import contextlib
import logging
import os
import pathlib
import stat
from collections.abc import Iterator

from sriov_rt import exceptions
from sriov_rt.kernel import errors
from sriov_rt.parse.errors import ParseError
from sriov_rt.parse.numbers import parse_int

LOG = logging.getLogger(__name__)

DEV = pathlib.Path("/dev")
SYS = pathlib.Path("/sys/class/net")

#: 12 and 20 bits (MINORBITS in include/linux/kdev_t.h).
_MAX_MAJOR = 0xFFF
_MAX_MINOR = 0xFFFFF

#: The longest text of a ``dev`` file: two numbers, a colon, a line feed.
_MAX_DEV = 16


def node(index: int) -> pathlib.Path:
    """Return the path of a macvtap's device node.

    :param index: index of the interface (macvtap_device_event in
        drivers/net/macvtap.c names the node after it).
    """
    return DEV / f"tap{index}"


def ensure(name: str, index: int) -> pathlib.Path:
    """Make the device node of a macvtap if devtmpfs or udev has not.

    A node that is left over from another interface is replaced.

    :param name: name of the macvtap, in the caller's namespace.
    :raises LinkError: if the node cannot be made.
    """
    number = _number(name, index)
    place = node(index)
    try:
        if _is(place, number):
            return place
        place.unlink(missing_ok=True)
        # Only its owner can open it, as with udev's rules.
        os.mknod(place, stat.S_IFCHR | stat.S_IRUSR | stat.S_IWUSR, number)
    except FileExistsError:
        if not _is(place, number):
            raise errors.NotVerified(str(place)) from None
    except OSError as error:
        raise errors.from_errno(
            error.errno or 0, str(place), detail="make the device node"
        ) from error
    return place


@contextlib.contextmanager
def leaving(name: str, index: int) -> Iterator[None]:
    """Remove the device node of a macvtap that is deleted in the block.

    devtmpfs removes its own nodes; those of :func:`ensure` would stay.

    :param name: name of the macvtap, in the caller's namespace.
    """
    try:
        number = _number(name, index)
    except errors.NoSuchLink:
        number = None
    yield
    place = node(index)
    try:
        if number is not None and _is(place, number):
            place.unlink(missing_ok=True)
    except OSError as error:
        LOG.warning("%s cannot be removed: %s", place, error.strerror)


def _number(name: str, index: int) -> int:
    file = SYS / name / f"tap{index}" / "dev"
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_DEV).decode("ascii", "replace").rstrip()
        major, _, minor = text.partition(":")
        return os.makedev(
            parse_int(major, "major number", 0, _MAX_MAJOR),
            parse_int(minor, "minor number", 0, _MAX_MINOR),
        )
    except (OSError, ParseError) as error:
        raise errors.NoSuchLink(
            name, detail=f"{file}: {exceptions.plain(error)}"
        ) from error


def _is(place: pathlib.Path, number: int) -> bool:
    try:
        found = place.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == number
