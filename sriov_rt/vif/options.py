# SPDX-License-Identifier: Apache-2.0

"""The options of the VIF driver."""

from oslo_config import cfg

from sriov_rt import config

GROUP = "vif"

VIF_OPTS = [
    cfg.ListOpt(
        "parents",
        default=[],
        help="""
The parents of ports, each as NETWORK:INTERFACE or NETWORK:pf:INTERFACE.

NETWORK is the physical network that the interface is wired to, as in
Neutron's configuration. ``physnet1:enp1s0v0`` names one interface, often a
VF; ``physnet2:pf:enp2s0`` stands for every VF of that PF whose interface is
on the host. VFs named here are sriov-rt's: it sets their VLAN and trust, and
brings them to the baseline when nothing uses them. An interface can be on
one network only.
""",
    ),
    cfg.Opt(
        "records",
        deprecated_name="journal",
        type=config.Checked(config.absolute_path),
        default="/run/sriov-rt/vif",
        help="""
The directory of the records of ports.

Each port has a file in ``records`` there, which says whose its interface is,
and whether it is being plugged or unplugged, so that a crash leaves nothing
behind. Only root needs to read or write it; it is made if it is not there.
All processes of a host that plug ports have to use the same. What the files
describe is gone after a reboot, so use a file system in memory.
""",
    ),
    cfg.FloatOpt(
        "lock_timeout",
        default=60.0,
        min=0.0,
        max=3600.0,
        help="""
Seconds to wait for another process that works on the same port or parent.

Some NICs reset a VF when it is set, which takes seconds; raise it where many
ports of one parent are plugged at once. What could not get its turn fails and
has changed nothing.
""",
    ),
    cfg.BoolOpt(
        "allow_trust",
        default=True,
        help="""
Whether VFs of ``parents`` may be set trusted where a port needs it.

A macvlan has a MAC of its own, which a VF with an administrative MAC carries
only while it is trusted. Trust is taken away when its last port goes. Turn it
off where VFs must never be trusted: such ports are then refused, and ipvlan
or VFs without an administrative MAC are what works.
""",
    ),
    cfg.BoolOpt(
        "restore",
        default=True,
        help="""
Whether 'sriov-rt vif restore' plugs ports of running containers again.

A PF's driver that is loaded again destroys its VFs with the interfaces that
containers have. Once the VFs are made again, each such port gets another one,
with its name, MAC, VLAN and limits. Turn it off where the manager of the
containers starts them again itself.
""",
    ),
    cfg.FloatOpt(
        "carrier_wait",
        default=2.0,
        min=0.0,
        max=60.0,
        help="""
Seconds to wait for the carrier of a new port before it is announced.

A neighbour that gets no gratuitous ARP finds a port that moved here only when
its cache expires. A port that has no carrier after this time is plugged all
the same, with a warning in the log.
""",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[vif]``."""
    conf.register_opts(VIF_OPTS, group=GROUP)
