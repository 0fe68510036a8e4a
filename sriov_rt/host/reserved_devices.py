# SPDX-License-Identifier: Apache-2.0

"""Reserved devices: one-time-use devices that stay out of use, and why.

``sriov-rt device clean`` writes the record as root, and the agent shows it.
"""

import dataclasses

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

#: Record of one-time-use devices that stay reserved, with their Reasons.
PATH = "run/sriov-rt/devices.json"

#: Increased when an older reader would misread the new form.
SCHEMA = 1

#: The longest record, in bytes: a sentence of 500 for each of 256 devices.
MAX_RECORD = 256 * 1024

#: Seconds after which a record is outdated: the cleaning was turned off.
MAX_AGE_S = 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class ReservedDevice:
    """A device that stays reserved, with the Reason.

    :param address: PCI address, or the name of its resource provider.
    :param code: code of the Reason.
    """

    address: str
    code: str
    message: str
    remedy: str


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Devices that the last run has left reserved.

    :param at: Unix time of the run's end, seconds.
    """

    at: float
    devices: tuple[ReservedDevice, ...]


def observe(root: Root, now: float) -> tuple[ReservedDevice, ...] | Unknown:
    """Return the devices that the last run has left reserved.

    :param now: Unix time, seconds.
    :returns: empty if there was no run for :data:`MAX_AGE_S`; unknown if the
        record cannot be read.
    """
    if root.exists(PATH) is False:
        return ()
    text = root.read_text(PATH, MAX_RECORD)
    if isinstance(text, Unknown):
        return text
    try:
        found = documents.load(Record, text.encode(), MAX_RECORD, SCHEMA)
    except codec.SchemaError as error:
        return Unknown(f"/{PATH}: {error}")
    return found.devices if now - found.at <= MAX_AGE_S else ()
