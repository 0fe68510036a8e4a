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


"""A port in progress, as a file of the journal has it."""

import dataclasses
import enum
import json

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.parse import pci
from sriov_rt.vif import names
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.words import Kind

#: Raised by one when an older reader would misread a newer file.
SCHEMA_VERSION = 3

#: Of the version before: without what tells whose an interface is.
OLD_SCHEMA = 2

#: The longest file, in bytes; an entry takes half a kB, its steps 200 bytes.
MAX_FILE = 16 * 1024


class Action(enum.StrEnum):
    """What is in progress: a plug is undone, an unplug is finished."""

    PLUG = "plug"
    UNPLUG = "unplug"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One port in progress: what it takes to undo or to finish it.

    :param interface: its name, in its namespace.
    :param parent: name of what it sits on; of a whole VF, its own on the
        host.
    :param vf: PCI address of the VF that it is or sits on.
    :param parent_up: whether the parent was up.
    :param boot: id of the boot that it is of; empty for one of a version
        before.
    :param space: which namespace the interface is in; None for the host's.
    :param index: the interface's, which a plug chooses before it makes it;
        0 if that is not known.
    :param parent_index: of what it sits on.
    """

    action: Action
    port: str
    owner: str
    kind: Kind
    interface: str
    namespace: str | None
    parent: str
    vf: str | None
    parent_up: bool
    boot: str = ""
    space: Identity | None = None
    index: int = 0
    parent_index: int = 0


#: How a line begins that is an entry's.
_HEAD = b'{"schema":'


def form(entry: Entry) -> bytes:
    """Return the line that an entry is in its file."""
    plain = {"schema": SCHEMA_VERSION, **codec.to_plain(entry)}
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def is_unfinished(data: bytes) -> bool:
    """Tell whether the bytes of a file are how an entry begins, and no more.

    What begins as something else somebody else may miss.
    """
    begins = data[: len(_HEAD)] == _HEAD[: len(data)]
    return begins and b"\n" not in data and len(data) <= MAX_FILE


def parse(data: bytes) -> Entry:
    """Return the entry that the bytes of a file are: the last of them.

    :raises SriovRtError: if they are none, with what is wrong.
    """
    if len(data) > MAX_FILE:
        raise codec.SchemaError("", f"longer than {MAX_FILE} bytes")
    # What follows the last end of a line was not wholly written.
    *lines, _ = data.split(b"\n")
    found = [each for each in lines if each.startswith(b"{")]
    if not found:
        raise codec.SchemaError("", "no entry")
    entry = _load(found[-1])
    names.port(entry.port)
    names.owner(entry.owner)
    names.interface(entry.interface)
    names.interface(entry.parent)
    if entry.namespace is not None:
        names.namespace(entry.namespace)
    if entry.vf is not None:
        pci.PciAddress.parse(entry.vf)
    return entry


def _load(line: bytes) -> Entry:
    try:
        return documents.load(Entry, line, MAX_FILE, SCHEMA_VERSION)
    except codec.SchemaError:
        if not line.startswith(_HEAD + str(OLD_SCHEMA).encode() + b","):
            raise
    return documents.load(Entry, line, MAX_FILE, OLD_SCHEMA)
