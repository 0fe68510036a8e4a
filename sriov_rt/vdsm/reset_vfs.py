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

"""The program that resets VFs for vdsm's user, as root by sudo.

It takes PCI addresses and nothing else.
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
    """Reset the VFs of some addresses, and return the exit code.

    Their drivers stay: vdsm binds and unbinds them itself.
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
