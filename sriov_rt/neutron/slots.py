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

"""Store of the VFs that ports have, and of those to be cleaned."""

import dataclasses
import logging
import pathlib
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.parse import errors
from sriov_rt.parse import pci

LOG = logging.getLogger(__name__)

#: Raised by one when an older reader would misread a newer file.
SCHEMA_VERSION = 1

#: The longest file, in bytes: a VF takes about 120, and 16 PFs with the 256
#: function numbers of PCI ARI have 4096.
MAX_FILE = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A VF that a port has, or had until it is clean.

    :param left: whether the port has left it.
    """

    port: str
    left: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    """Stored slots, by PCI address."""

    slots: Mapping[str, Slot]


def load(path: pathlib.Path) -> dict[str, Slot]:
    """Return what was stored; nothing if no file can be used.

    A VF that nobody knows of any more is cleaned when its next port comes.
    """
    try:
        return dict(parse(files.read(path, MAX_FILE)).slots)
    except FileNotFoundError:
        return {}
    except (OSError, codec.SchemaError, errors.ParseError) as error:
        LOG.warning(
            "cannot use %s (%s); VFs that were released while the agent was "
            "down are cleaned when they get another port",
            path,
            exceptions.plain(error),
        )
        return {}


def parse(data: bytes) -> Slots:
    """Return what the bytes of a file say.

    :raises SchemaError: if they are not what :func:`save` writes.
    :raises ParseError: for a slot that is no PCI address.
    """
    found = documents.load(Slots, data, MAX_FILE, SCHEMA_VERSION)
    for address in found.slots:
        pci.PciAddress.parse(address)
    return found


def save(path: pathlib.Path, slots: Mapping[str, Slot]) -> bool:
    """Replace the file, all at once; return whether it could be.

    No fsync: VFs are made anew when the host boots.
    """
    data = documents.dump(Slots(slots), SCHEMA_VERSION)
    try:
        files.replace(path, data)
    except OSError as error:
        LOG.warning(
            "cannot write %s (%s); a VF that is released while the agent is "
            "down will be cleaned only when it gets another port. Let the "
            "agent's user write the file, or set state_file",
            path,
            exceptions.plain(error),
        )
        return False
    return True
