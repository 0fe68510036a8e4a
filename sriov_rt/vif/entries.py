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
from sriov_rt.vif import asked
from sriov_rt.vif import names
from sriov_rt.vif.words import Kind
from sriov_rt.vif.words import Plug

#: Raised by one when an older reader would misread a newer file.
SCHEMA_VERSION = 1

#: The longest file, in bytes: a port with 64 addresses and 64 routes takes
#: some 12 kB.
MAX_FILE = 64 * 1024


class Action(enum.StrEnum):
    """What is in progress: a plug is undone, an unplug is finished."""

    PLUG = "plug"
    UNPLUG = "unplug"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One port in progress: what is to be done, and what was observed.

    :param interface: its name, in its namespace.
    :param parent: name of what it sits on; of a whole VF, its own on the
        host.
    :param vf: PCI address of the VF that it is or sits on.
    :param parent_up: whether the parent was up.
    :param want: what was asked; None for an unplug.
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
    want: Plug | None


def form(entry: Entry) -> bytes:
    """Return the first line of an entry's file."""
    plain = {"schema": SCHEMA_VERSION, **codec.to_plain(entry)}
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def parse(data: bytes) -> Entry:
    """Return the entry that the bytes of a file are.

    :raises SriovRtError: if they are none, with what is wrong.
    """
    if len(data) > MAX_FILE:
        raise codec.SchemaError("", f"longer than {MAX_FILE} bytes")
    first, newline, _ = data.partition(b"\n")
    if not newline:
        raise codec.SchemaError("", "no whole line")
    entry = documents.load(Entry, first, MAX_FILE, SCHEMA_VERSION)
    names.port(entry.port)
    names.owner(entry.owner)
    names.interface(entry.interface)
    names.interface(entry.parent)
    if entry.namespace is not None:
        names.namespace(entry.namespace)
    if entry.vf is not None:
        pci.PciAddress.parse(entry.vf)
    if entry.want is not None:
        asked.checked(entry.want)
    return entry
