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

"""Writing to the kernel's files, below a root."""

import os
import pathlib

from sriov_rt.host.root import Root
from sriov_rt.nic import errors


def write(
    root: Root,
    relative: str,
    text: str,
    device: str,
    attribute: str | None = None,
) -> None:
    """Write one value to a file of sysfs.

    :param relative: path below the root; it has to be there.
    :param device: what the file is of, for the error.
    :raises NicError: as the kernel's errno says; NotPermitted for a file
        that a link leads to outside of the root.
    """
    path = pathlib.Path(root.path, relative)
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.path.resolve()):
            raise errors.NotPermitted(
                device, attribute, f"/{relative} leads out of the root"
            )
        descriptor = os.open(real, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{text}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        code = error.errno or 0
        raise errors.from_errno(code, device, attribute) from error
