# SPDX-License-Identifier: Apache-2.0

"""PCI devices in sysfs, read and reset."""

import re
from collections.abc import Iterator
from typing import TypeVar

from sriov_rt.codec import Unknown
from sriov_rt.devices.rules import HEADER
from sriov_rt.devices.rules import Device
from sriov_rt.host import container
from sriov_rt.host import values
from sriov_rt.host import vfio
from sriov_rt.host import vfs
from sriov_rt.host.root import Root
from sriov_rt.nic import errors
from sriov_rt.nic import sysfs
from sriov_rt.parse import numbers
from sriov_rt.parse.errors import ParseError
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Severity of errors to the name of the total in the last line of its file
#: (Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats).
_COUNTS = {"fatal": "TOTAL_ERR_FATAL", "nonfatal": "TOTAL_ERR_NONFATAL"}

_ID = re.compile(r"0x([0-9a-f]{4})")

T = TypeVar("T")

_CONTAINER = Unknown("this process does not see those of the host")


class Devices:
    """PCI devices of a host.

    :param root: root below which sysfs and procfs are mounted.
    """

    def __init__(self, root: Root) -> None:
        self._root = root

    def observe(self, address: str) -> Device | Reason:
        """Return a device, or why it cannot be read.

        :param address: its PCI address, which names a directory.
        """
        device = f"{vfs.DEVICES}/{address}"
        if self._root.exists(device) is False:
            return reason("device_missing", address=address)
        try:
            return self._device(address, device)
        except _Unreadable as error:
            return reason("device_unreadable", address=address, why=str(error))

    def reset(self, address: str) -> Reason | None:
        """Reset a device by the first of its methods.

        :returns: why that failed; None if it succeeded.
        """
        try:
            sysfs.write(
                self._root,
                f"{vfs.DEVICES}/{address}/reset",
                "1",
                address,
            )
        except errors.NicError as error:
            return reason(
                "device_not_reset", address=address, why=error.problem
            )
        return None

    def _device(self, address: str, device: str) -> Device:
        driver = _known(values.link_name(self._root, f"{device}/driver"))
        return Device(
            address=address,
            identity=":".join(
                self._id(f"{device}/{name}") for name in ("vendor", "device")
            ),
            is_vf=_known(self._root.exists(f"{device}/physfn")),
            vfs=self._vfs(device),
            driver=driver,
            methods=self._methods(device),
            holder=self._holder(device),
            header=self._header(f"{device}/config"),
            errors=dict(self._errors(device)),
        )

    def _id(self, path: str) -> str:
        text = _known(self._root.read_text(path)).strip()
        match = _ID.fullmatch(text)
        if match is None:
            raise _Unreadable(f"/{path} is no PCI id")
        return match[1]

    def _vfs(self, device: str) -> int:
        path = f"{device}/sriov_numvfs"
        if self._root.exists(path) is False:
            return 0
        return _known(values.integer(self._root, path, maximum=vfs.MAX_VFS))

    def _methods(self, device: str) -> tuple[str, ...]:
        """Return the reset methods that Linux shows since 5.15."""
        path = f"{device}/reset_method"
        if self._root.exists(path) is False:
            return ()
        text = self._root.read_text(path, sysfs.PAGE, may_be_empty=True)
        return tuple(_known(text).split())

    def _holder(self, device: str) -> str | None | Unknown:
        if not container.sees_host_processes(f"{self._root.path}/proc"):
            return _CONTAINER
        group = values.link_name(self._root, f"{device}/iommu_group")
        if isinstance(group, Unknown):
            return group
        try:
            number = None if group is None else int(group)
        except ValueError:
            return Unknown(f"/{device}/iommu_group leads to no number")
        # A new lookup each time, because each reads processes only once.
        return vfio.Holders(self._root).of(device, number)

    def _header(self, path: str) -> bytes:
        file = _known(self._root.open_file(path))
        with file:
            try:
                found = file.read(HEADER) or b""
            except OSError as error:
                raise _Unreadable(f"/{path}: {error.strerror}") from error
        if len(found) != HEADER:
            raise _Unreadable(f"/{path} has {len(found)} bytes of {HEADER}")
        return found

    def _errors(self, device: str) -> Iterator[tuple[str, int]]:
        for severity, name in _COUNTS.items():
            path = f"{device}/aer_dev_{severity}"
            if self._root.exists(path) is False:
                continue
            text = _known(self._root.read_text(path, sysfs.PAGE))
            _, _, count = text.rstrip("\n").rpartition(f"{name} ")
            try:
                yield (
                    severity,
                    numbers.parse_int(count, f"{name}", 0, values.MAX_INT),
                )
            except ParseError as error:
                raise _Unreadable(f"/{path}: {error}") from error


class _Unreadable(Exception):
    """A file of a device cannot be read."""


def _known(value: T | Unknown) -> T:
    if isinstance(value, Unknown):
        raise _Unreadable(value.reason)
    return value
