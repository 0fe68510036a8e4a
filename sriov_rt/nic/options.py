# SPDX-License-Identifier: Apache-2.0

"""Options of NICs, ``[nic]``."""

from oslo_config import cfg

GROUP = "nic"

NIC_OPTS = [
    cfg.ListOpt(
        "vfs",
        default=[],
        help="""
How many VFs each PF has, as PF:NUMBER or PF:NUMBER:MODE.

``enp1s0:4:guests,enp2s0:8:host`` gives enp1s0 four VFs without a driver of
the host, for guests that take them whole, and enp2s0 eight with one, whose
interfaces ports are made of. ``sriov-rt vf provision`` makes them, at boot
from the unit sriov-rt-vfs; PFs that are not named are left alone.
""",
    ),
    cfg.StrOpt(
        "vf_mode",
        default="host",
        choices=[
            ("host", "the kernel binds its driver to new VFs"),
            ("guests", "new VFs have no driver until a guest takes them"),
        ],
        help="""
The mode of the PFs that ``vfs`` names without one.

Choose ``guests`` on hosts that only pass VFs through: 63 VFs of an X520 then
come up at once and not after ten seconds, and udev sees no interfaces. Ports
of kind macvlan, ipvlan or VF in a container need ``host``.
""",
    ),
    cfg.ListOpt(
        "vf_macs",
        default=[],
        help="""
The MACs of the interfaces of a PF's VFs, as PF:MAC.

``enp2s0:02:00:5e:20:00:00`` gives the interface of enp2s0's VF 0 that MAC, of
VF 1 the next one, and so on. Drivers make up others each time that they are
loaded, so name the PFs whose VFs the host itself uses, or containers to which
an operator gives them: ``sriov-rt vf provision`` sets the MACs once the VFs
are made, before it ends, and leaves a VF in use alone. VFs in ``[vif]
parents`` need none: a port brings its own MAC, and is reset after it.
""",
    ),
    cfg.FloatOpt(
        "pf_timeout",
        default=30.0,
        min=0.0,
        max=600.0,
        help="""
Seconds for which ``sriov-rt vf provision`` waits for a PF to appear.

At boot the driver of a NIC may load after the unit has started. Raise it for
NICs whose firmware takes long; a PF that is not there in time is an error.
""",
    ),
]
