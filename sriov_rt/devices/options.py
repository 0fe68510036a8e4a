# SPDX-License-Identifier: Apache-2.0

"""The options of devices between tenants, ``[devices]``."""

import fnmatch
import re
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.parse import errors
from sriov_rt.parse import pci
from sriov_rt.parse.pci import PciAddress

GROUP = "devices"

#: An address with * and ?; the longest address has 16 characters.
_PATTERN = re.compile(r"[0-9a-f:.*?]{1,32}", re.IGNORECASE | re.ASCII)


def pattern(text: str) -> str:
    """Return a pattern in the form for :func:`is_chosen`.

    :raises ParseError: if no PCI address can match.
    """
    if _PATTERN.fullmatch(text) is None:
        raise errors.ParseError(
            "device", text, "a PCI address expected, which may have * and ?"
        )
    if "*" in text or "?" in text:
        return text.lower()
    return str(pci.PciAddress.parse(text))


def is_chosen(address: PciAddress, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches an address."""
    return any(fnmatch.fnmatchcase(str(address), each) for each in patterns)


def chosen(conf: cfg.ConfigOpts) -> Sequence[str]:
    """Return the patterns of the option ``clean``."""
    return tuple(map(pattern, conf[GROUP].clean))


DEVICE_OPTS = [
    cfg.ListOpt(
        "clean",
        item_type=config.Checked(pattern),
        default=[],
        help="""
One-time-use devices that are cleaned and given back, by PCI address.

Nova reserves a device whose ``[pci] device_spec`` has ``one_time_use`` when an
instance gets it, and never gives it back. ``sriov-rt device clean`` resets
those named here once their instance is gone, verifies that, and sets reserved
to 0 in Placement with the credentials of ``[placement]``; the timer
sriov-rt-devices runs it. ``*`` and ``?`` match as in a shell: ``0000:41:*``,
or ``*`` for every such device. Leave out what is cleaned by other means, and
what is to stay reserved.
""",
    ),
]
