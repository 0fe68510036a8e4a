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

"""Marks of VFs whose PF may keep MAC filters of their last use.

Some PFs forget the filters that a VF has set only when their VFs are made
again (family.FilterRelease). A mark is a file named for the VF's address with
the inode of its device in sysfs: a VF that was made again has another one, and
a boot leaves none.
"""

import contextlib
import os
import pathlib

from sriov_rt import files
from sriov_rt.host import container
from sriov_rt.host.root import Root
from sriov_rt.nic import errors

DEVICES = "sys/bus/pci/devices"
DIRECTORY = "run/sriov-rt/filters"

#: The longest mark, in bytes: a number of 64 bits and a line feed.
_MAX_MARK = 32


class FilterMarks:
    """The marks of a host.

    :param root: where sysfs and /run are.
    """

    def __init__(self, root: Root) -> None:
        self._root = root.path

    def put(self, address: str) -> None:
        """Mark a VF; one that is gone needs none.

        :raises MarkNotKept: if it would end with this container, before the
            VF does.
        :raises NotMarked: if that cannot be written.
        """
        if self._ends_with_container():
            raise errors.MarkNotKept(address, self._root / DIRECTORY)
        inode = self._inode(address)
        if inode is None:
            return
        with contextlib.suppress(OSError, ValueError):
            if self._marked(address) == inode:
                return
        path = self._path(address)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            for each in reversed(path.parents):
                if not each.exists():
                    # Each by itself: the daemon of oslo.privsep has no umask.
                    each.mkdir(0o755, exist_ok=True)
            temporary.write_text(f"{inode}\n")
            temporary.replace(path)
        except OSError as error:
            problem = f"{path} cannot be written: {error.strerror}"
            raise errors.NotMarked(address, None, problem) from error

    def has(self, address: str) -> bool:
        """Return whether a VF is marked.

        One whose mark cannot be read is: nobody knows of which device it was.
        So is each VF in a container that does not see the host's marks.
        """
        if self._ends_with_container():
            return True
        try:
            marked = self._marked(address)
        except (OSError, ValueError):
            return True
        return marked is not None and marked == self._inode(address)

    def _ends_with_container(self) -> bool:
        return container.ends_with_container(self._root / DIRECTORY)

    def _path(self, address: str) -> pathlib.Path:
        return self._root / DIRECTORY / address

    def _marked(self, address: str) -> int | None:
        with contextlib.suppress(FileNotFoundError):
            data = files.read(self._path(address), _MAX_MARK)
            if len(data) > _MAX_MARK:
                raise ValueError("too long")
            return int(data)
        return None

    def _inode(self, address: str) -> int | None:
        with contextlib.suppress(OSError):
            return (self._root / DEVICES / address).stat().st_ino
        return None
