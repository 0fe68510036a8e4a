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

"""Files that are replaced as a whole."""

import os
import pathlib


def replace(
    path: pathlib.Path,
    data: bytes,
    mode: int = 0o600,
    *,
    durable: bool = False,
) -> None:
    """Write a file so that a reader finds the old one or the new one.

    The name of the new one begins with a dot until it is whole, which NFD
    passes over in its directory. A path has one writer at a time.

    :param mode: its permissions, whatever the process's umask.
    :param durable: it is on the disk before it takes the old one's place; of
        no use for what does not count after the next boot.
    :raises OSError: if it cannot be written; the old one is then still there.
    """
    temporary = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
