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

"""Attachments of pods to VFs, one file for each VF.

The files are in /run, so that they end with the boot as the VFs do.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import time
from collections.abc import Callable
from collections.abc import Iterator

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.parse import pci
from sriov_rt.parse.errors import ParseError

#: Directory of the files.
DIRECTORY = pathlib.Path("/run/sriov-rt/pods")

#: Raised by one when an older reader would misread a newer file.
SCHEMA_VERSION = 1

#: The longest file, in bytes.
MAX_FILE = 16 * 1024

#: The longest reason that is kept, in characters.
MAX_REASON = 2000

#: Seconds that another call may have a VF. Binding a driver again takes up
#: to 35 s (nic.driver_binding), a runtime waits two minutes.
LOCK_S = 60.0

_LOCK = ".lock"


class StoreUnusable(exceptions.SriovRtError):
    """The directory of attachments cannot be used.

    :param problem: a clause.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the record of which pod has which VF cannot be kept "
            f"({problem}); see that {DIRECTORY} is root's and not full"
        )


class Locked(exceptions.SriovRtError):
    """Another call holds the lock of a VF.

    :param address: of the VF.
    """

    def __init__(self, address: str) -> None:
        super().__init__(
            f"another call is changing the VF {address}; the runtime tries "
            "again"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """A VF that a pod has, or that is quarantined.

    :param address: PCI address of the VF.
    :param network: name of the network in CNI.
    :param container: id of the container, of the sandbox in Kubernetes.
    :param interface: name in the container.
    :param pod: NAMESPACE/NAME; empty if it is not known.
    :param namespace: path of the container's network namespace.
    :param driver: of the VF before it was given; None for none.
    :param reason: why the VF is quarantined; empty if it is not.
    """

    address: str
    network: str
    container: str
    interface: str
    pod: str = ""
    namespace: str = ""
    driver: str | None = None
    reason: str = ""

    @property
    def is_quarantined(self) -> bool:
        """Whether the VF was not seen to be clean."""
        return bool(self.reason)


class Store:
    """The attachments of a host.

    :param directory: of the files; None for :data:`DIRECTORY`.
    :param sleep: seconds to wait for a lock, at a time.
    """

    def __init__(
        self,
        directory: pathlib.Path | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = DIRECTORY if directory is None else directory
        self._sleep = sleep
        self._monotonic = monotonic

    def check(self) -> None:
        """Make the directory, and check that only root can write in it.

        :raises StoreUnusable: if others can, or it cannot be made.
        """
        try:
            for each in (self._directory.parent, self._directory):
                each.mkdir(mode=0o755, exist_ok=True)
                files.check_directory(each)
        except OSError as error:
            raise StoreUnusable(error.strerror or str(error)) from error

    @contextlib.contextmanager
    def locked(self, address: str) -> Iterator[None]:
        """Hold the lock of a VF.

        :raises Locked: if one has it for too long.
        :raises StoreUnusable: if the directory cannot be used.
        """
        self.check()
        try:
            stream = (self._directory / f"{_LOCK}.{address}").open("w")
        except OSError as error:
            raise StoreUnusable(error.strerror or str(error)) from error
        with stream:
            deadline = self._monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._monotonic() > deadline:
                        raise Locked(address) from None
                    self._sleep(0.05)
            yield

    def get(self, address: str) -> Attachment | None:
        """Return the attachment of a VF; None if it has none.

        A damaged file counts as a quarantined VF.

        :raises StoreUnusable: if the directory cannot be used.
        """
        path = self._directory / address
        try:
            data = files.read(path, MAX_FILE, private=True)
            found = documents.load(Attachment, data, MAX_FILE, SCHEMA_VERSION)
        except FileNotFoundError:
            return None
        except files.Unusable as error:
            return _damaged(address, error.strerror or str(error))
        except OSError as error:
            raise StoreUnusable(error.strerror or str(error)) from error
        except codec.SchemaError as error:
            return _damaged(address, str(error))
        if found.address != address:
            return _damaged(address, f"it is of {found.address[:20]!r}")
        return found

    def all(self) -> tuple[Attachment, ...]:
        """Return all attachments, sorted by their VFs.

        :raises StoreUnusable: if the directory cannot be used.
        """
        try:
            names = sorted(os.listdir(self._directory))  # noqa: PTH208
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreUnusable(error.strerror or str(error)) from error
        found = (self.get(each) for each in names if _is_address(each))
        return tuple(each for each in found if each is not None)

    def put(self, attachment: Attachment) -> None:
        """Write an attachment; it replaces the one of the same VF.

        :raises StoreUnusable: if it cannot be written; the old one stays.
        """
        self.check()
        kept = dataclasses.replace(
            attachment, reason=attachment.reason[:MAX_REASON]
        )
        plain = {"schema": SCHEMA_VERSION, **codec.to_plain(kept)}
        path = self._directory / attachment.address
        try:
            files.replace(path, json.dumps(plain).encode() + b"\n", 0o600)
        except OSError as error:
            raise StoreUnusable(error.strerror or str(error)) from error

    def remove(self, address: str) -> None:
        """Remove the attachment of a VF, if there is one.

        :raises StoreUnusable: if it cannot be.
        """
        try:
            (self._directory / address).unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnusable(error.strerror or str(error)) from error


def _damaged(address: str, problem: str) -> Attachment:
    return Attachment(
        address,
        network="",
        container="",
        interface="",
        reason=f"its record is damaged ({problem})",
    )


def _is_address(name: str) -> bool:
    try:
        return str(pci.PciAddress.parse(name)) == name
    except ParseError:
        return False
