# SPDX-License-Identifier: Apache-2.0

"""Names, MACs and VLANs of network links."""

import re

#: The longest name of an interface: IFNAMSIZ without the zero (linux/if.h).
MAX_INTERFACE = 15

#: 802.1Q's greatest VLAN id; 4095 is reserved.
MAX_VLAN = 4094

#: The MAC that means no MAC (is_zero_ether_addr in linux/etherdevice.h).
NO_MAC = "00:00:00:00:00:00"

# Printable ASCII without characters that have a meaning elsewhere: in a path
# or PF/index, in an alias (eth0:1) or in a kernel's pattern (eth%d).
_INTERFACE = re.compile(
    rf"(?!\.\.?$)[!-$&-.0-9;-~]{{1,{MAX_INTERFACE}}}", re.ASCII
)

_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
# The longest address, InfiniBand's, has 20 bytes.
_HARDWARE_ADDRESS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5,19}")


def is_interface(text: str) -> bool:
    """Return whether a text can be the name of an interface.

    See dev_valid_name in net/core/dev.c.
    """
    return _INTERFACE.fullmatch(text) is not None


def is_mac(text: str) -> bool:
    """Return whether a text is a MAC in lower case."""
    return _MAC.fullmatch(text) is not None


def is_hardware_address(text: str) -> bool:
    """Return whether a text is a MAC or a longer address, in lower case."""
    return _HARDWARE_ADDRESS.fullmatch(text) is not None


def is_multicast(mac: str) -> bool:
    """Return whether a MAC is a multicast address.

    :param mac: a MAC that :func:`is_mac` accepts.
    """
    return bool(int(mac[:2], 16) & 1)
