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

"""How many VFs a PF is to have, from words such as ``enp1s0:4:guests``."""

import dataclasses
import enum
from collections.abc import Sequence

from sriov_rt.host.vfs import MAX_VFS
from sriov_rt.nic import names
from sriov_rt.parse import errors
from sriov_rt.parse import numbers

#: More than any host has PFs.
MAX_WORDS = 256
MAX_WORD = 64


class Mode(enum.StrEnum):
    """What VFs are for: the host's interfaces, or guests as a whole."""

    HOST = "host"
    GUESTS = "guests"


@dataclasses.dataclass(frozen=True, slots=True)
class Amount:
    """How many VFs a PF is to have.

    :param pf: name of its interface.
    """

    pf: str
    number: int
    mode: Mode


def parse(words: Sequence[str], default: Mode) -> tuple[Amount, ...]:
    """Return what ``[nic] vfs`` says.

    :param default: the mode of those that name none.
    :raises ParseError: for a word that is not PF:NUMBER or PF:NUMBER:MODE,
        or a PF that comes twice.
    """
    if len(words) > MAX_WORDS:
        raise errors.ParseError(
            "[nic] vfs", str(len(words)), f"at most {MAX_WORDS} PFs"
        )
    found: dict[str, Amount] = {}
    for word in words:
        amount = _parse(word, default)
        if amount.pf in found:
            raise errors.ParseError(
                "[nic] vfs", word, f"{amount.pf} comes twice"
            )
        found[amount.pf] = amount
    return tuple(found.values())


def _parse(word: str, default: Mode) -> Amount:
    errors.check_length("[nic] vfs", word, MAX_WORD)
    parts = word.strip().split(":")
    if len(parts) not in (2, 3) or not names.is_interface(parts[0]):
        raise errors.ParseError(
            "[nic] vfs", word, "PF:NUMBER or PF:NUMBER:MODE expected"
        )
    mode = default
    if len(parts) == 3:
        if parts[2] not in list(Mode):
            raise errors.ParseError(
                "[nic] vfs", word, f"mode {' or '.join(Mode)} expected"
            )
        mode = Mode(parts[2])
    number = numbers.parse_int(parts[1], "number of VFs", 0, MAX_VFS)
    return Amount(parts[0], number, mode)
