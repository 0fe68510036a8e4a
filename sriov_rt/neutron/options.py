# SPDX-License-Identifier: Apache-2.0

"""Our options of neutron-server and of the agents."""

from typing import Any

from oslo_config import cfg
from oslo_config import types

from sriov_rt import config
from sriov_rt.host.root import CONFIG
from sriov_rt.parse import errors
from sriov_rt.request import grammar
from sriov_rt.request.words import Vif
from sriov_rt.vif import host_offer

#: Type and binary of our agent in ``openstack network agent list``.
AGENT_TYPE = "SR-IOV RT VIF agent"
AGENT_BINARY = "sriov-rt-neutron-agent"

#: Section of neutron-server.
ML2_GROUP = "ml2_sriov_rt"

#: Section of ``sriov-rt-neutron-agent``.
AGENT_GROUP = "sriov_rt_agent"

#: Section of the L2 extension, in neutron-sriov-nic-agent's configuration.
EXTENSION_GROUP = "sriov_rt_extension"


class _Parsed(types.ConfigType):
    """A type with our own grammar, whose instances are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = types.ConfigType.__hash__

    def _formatter(self, value: Any) -> str:
        return str(value)


class VifType(_Parsed):
    """A kind of port and its mode, in the grammar of ``sriov_rt:vif``."""

    def __init__(self) -> None:
        super().__init__(type_name="vif value")

    def __call__(self, value: Any) -> Vif:
        """Return the value's meaning.

        :raises ParseError: a ValueError, if it is out of the grammar.
        """
        if isinstance(value, Vif):
            return value
        vif: Vif = grammar.parse_value("vif", str(value))
        return vif


class NetworkType(_Parsed):
    """The name of a physical network, optionally with its own kind of port."""

    def __init__(self) -> None:
        super().__init__(type_name="network value")

    def __call__(self, value: Any) -> tuple[str, Vif | None]:
        """Return the name, and the kind or None.

        :raises ParseError: a ValueError, if it is out of the grammar.
        """
        name, colon, vif = str(value).partition(":")
        if not host_offer.is_network(name):
            raise errors.ParseError(
                "physical network",
                str(value),
                f"1 to {host_offer.MAX_NAME} characters without space, comma "
                "and colon expected",
            )
        return name, VifType()(vif) if colon else None


ML2_OPTS = [
    cfg.ListOpt(
        "physical_networks",
        item_type=NetworkType(),
        default=[],
        help="""
The physical networks whose ports of VNIC type normal are bound here.

Each is bound on hosts whose sriov-rt-neutron-agent is alive and has parents
on it; on other hosts its ports are left to the mechanism drivers that come
after. A name with a kind behind it (``physnet2:ipvlan:l2``) has that one in
place of ``vif``; without any name here the driver binds nothing.
""",
    ),
    cfg.Opt(
        "vif",
        type=VifType(),
        default="macvlan:bridge",
        help="""
How ports are made: ``macvlan``, ``ipvlan`` or ``vf``, with a mode.

The grammar is that of the extra spec ``sriov_rt:vif``: ``macvlan:bridge``,
``:private``, ``:vepa`` and ``:passthru``, ``ipvlan:l2``, ``:l3`` and
``:l3s``, and ``vf``. Ports that are bound already keep what they are until
they are bound again.
""",
    ),
]

AGENT_OPTS = [
    cfg.Opt(
        "config_file",
        type=config.Checked(config.absolute_path),
        default=f"/{CONFIG}",
        help="""
The file with this host's ``[vif]`` section: parents, records, limits.

Name the one that ``[os_vif_sriov_rt] config_file`` names in nova.conf: the
agent offers Neutron the parents that nova-compute plugs ports on. Without
parents in it no port is bound to this host.
""",
    ),
    cfg.FloatOpt(
        "polling_interval",
        default=2.0,
        min=0.2,
        max=60.0,
        help="""
Seconds from one look at the ports of this host to the next.

Most ports are seen at once, by the kernel's events; one that is made within
another network namespace sends none here and is seen after this time at the
latest. An instance waits for its port's ACTIVE: raise it only on hosts with
hundreds of ports.
""",
    ),
    cfg.FloatOpt(
        "retry_interval",
        default=10.0,
        min=0.5,
        max=600.0,
        help="""
Seconds after which neutron-server is queried again about a port.

Ports whose binding is not active here yet, such as those of an instance that
migrates to this host, are queried again when Neutron says so, and after
this time in case that message was lost.
""",
    ),
]

EXTENSION_OPTS = [
    cfg.FloatOpt(
        "retry_interval",
        default=5.0,
        min=0.5,
        max=600.0,
        help="""
Seconds after which a VF is looked at again that could not be reset.

A VF that a port has left is reset as soon as it is back at its host driver
and nobody uses it; libvirt gives it back a moment after the guest has ended.
""",
    ),
]


def register_ml2(conf: cfg.ConfigOpts) -> None:
    """Register and read the options of the mechanism driver.

    :raises OptionRejected: for an option with a bad value.
    """
    conf.register_opts(ML2_OPTS, group=ML2_GROUP)
    config.check(conf, ((ML2_GROUP, ML2_OPTS),), "neutron-server")


def register_agent(conf: cfg.ConfigOpts) -> None:
    """Register the options that the agent reads besides neutron's own."""
    conf.register_opts(AGENT_OPTS, group=AGENT_GROUP)


def check_agent(conf: cfg.ConfigOpts) -> None:
    """Read every option of the agent, once the configuration is read.

    :raises OptionRejected: for an option with a bad value.
    """
    config.check(conf, ((AGENT_GROUP, AGENT_OPTS),), "sriov-rt-neutron-agent")


def register_extension(conf: cfg.ConfigOpts) -> None:
    """Register and read the options of the L2 extension.

    :raises OptionRejected: for an option with a bad value.
    """
    conf.register_opts(EXTENSION_OPTS, group=EXTENSION_GROUP)
    config.check(
        conf, ((EXTENSION_GROUP, EXTENSION_OPTS),), "neutron-sriov-nic-agent"
    )


def networks(conf: cfg.ConfigOpts) -> dict[str, Vif]:
    """Return the kind of port on each physical network.

    :param conf: configuration with the options of the mechanism driver.
    """
    section = conf[ML2_GROUP]
    return {
        name: vif or section.vif for name, vif in section.physical_networks
    }
