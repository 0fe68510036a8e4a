# SPDX-License-Identifier: Apache-2.0

"""Mechanism driver of the test cloud: project networks made of taps.

It stands in for Open vSwitch or OVN, which the machine's kernel can't have:
ports of networks of type ``local`` are taps that lead nowhere. So servers of
projects have ports, addresses and states as anywhere, and no traffic.
"""

from typing import Any

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class TapMechanismDriver(api.MechanismDriver):  # type: ignore[misc]
    """Bind ports of local networks on any host, ACTIVE at once."""

    def initialize(self) -> None:
        """Nothing to do."""

    def bind_port(self, context: Any) -> None:
        """Bind a port, if it is an ordinary one of a local network.

        :param context: the port.
        """
        vnic = context.current.get(portbindings.VNIC_TYPE)
        if vnic != portbindings.VNIC_NORMAL:
            return
        for segment in context.segments_to_bind:
            if segment[api.NETWORK_TYPE] == constants.TYPE_LOCAL:
                context.set_binding(
                    segment[api.ID],
                    portbindings.VIF_TYPE_TAP,
                    {portbindings.CAP_PORT_FILTER: False},
                    status=constants.PORT_STATUS_ACTIVE,
                )
                return
