# SPDX-License-Identifier: Apache-2.0

"""The program that resets VFs for vdsm's user, as root by sudo.

It accepts only PCI addresses.
"""

import sys
from collections.abc import Sequence

from sriov_rt import exceptions
from sriov_rt.guest.passthrough import MAX_DEVICES
from sriov_rt.guest.passthrough import PassedThrough
from sriov_rt.libvirt import vfs
from sriov_rt.parse import errors
from sriov_rt.parse.pci import PciAddress


def main(arguments: Sequence[str] | None = None) -> int:
    """Reset the VFs with some addresses, and return the exit code.

    Their drivers stay bound: vdsm binds and unbinds them itself.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        devices = [
            PassedThrough(str(PciAddress.parse(each)), managed=False)
            for each in words[:MAX_DEVICES]
        ]
        vfs.clean(vfs.of_host(), devices)
    except (errors.ParseError, exceptions.SriovRtError, OSError) as error:
        print(f"sriov-rt: {error}", file=sys.stderr)
        return 1
    return 0
