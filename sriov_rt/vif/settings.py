# SPDX-License-Identifier: Apache-2.0

"""Checked settings of ``[vif]``: rules, and parents of each network."""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Self

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.nic.model import VfId
from sriov_rt.parse.errors import ParseError
from sriov_rt.parse.errors import check_length
from sriov_rt.vif import options
from sriov_rt.vif import validation
from sriov_rt.vif.errors import NameInvalid


def _no_nics() -> Collection[str]:
    return ()


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """Rules that an operator configures.

    :param allow_trust: whether VFs of the pools may be set trusted.
    :param carrier_wait_s: how long to wait for a new port's carrier before it
        is announced, in seconds.
    :param unaccelerated: whether an accelerated port is plugged as a plain one
        if every NIC has another of its network.
    :param onload_nics: returns the interfaces of the NICs that Onload can use;
        called for accelerated ports only.
    :param restore: whether ports of running containers are plugged again if
        their VF was destroyed.
    """

    allow_trust: bool = True
    carrier_wait_s: float = 2.0
    unaccelerated: bool = False
    onload_nics: Callable[[], Collection[str]] = _no_nics
    restore: bool = True


#: Prefix of the name of a PF whose VFs are all members.
OF_PF = "pf:"

#: The most members: VFs of 16 PFs with the 256 function numbers of PCI ARI.
MAX_MEMBERS = 4096

_WHAT = "[vif] parents"


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """An interface, or all VFs of one, on a physical network.

    :param name: of the interface, or of the PF.
    :param of_pf: whether the PF's VFs are the members, not the PF itself.
    """

    network: str
    name: str
    of_pf: bool = False

    def __str__(self) -> str:
        return f"{self.network}:{OF_PF if self.of_pf else ''}{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Pools:
    """All members, in the order of the configuration."""

    members: tuple[Member, ...] = ()

    @classmethod
    def parse(cls, items: Sequence[str]) -> Self:
        """Return the pools of ``physnet1:enp1s0v0``, ``physnet2:pf:enp2s0``.

        :raises ParseError: for any other item, and for an interface on two
            networks: a parent is on one wire.
        """
        if len(items) > MAX_MEMBERS:
            raise ParseError(_WHAT, str(len(items)), f"at most {MAX_MEMBERS}")
        found: dict[tuple[str, bool], Member] = {}
        for item in items:
            member = _member(item)
            first = found.setdefault((member.name, member.of_pf), member)
            if first.network != member.network:
                raise ParseError(
                    _WHAT, item, f"it is on {first.network} already"
                )
        return cls(tuple(found.values()))

    @property
    def networks(self) -> tuple[str, ...]:
        """The physical networks that have members."""
        return tuple(dict.fromkeys(each.network for each in self.members))

    def of(self, network: str) -> Iterator[Member]:
        """Yield the members of a physical network."""
        return (each for each in self.members if each.network == network)

    def network_of(self, netdev: str, vf: VfId | None) -> str | None:
        """Return the network of an interface; None if it is in no pool.

        An interface that is named itself is on that network, whatever its PF
        is on. A VF with a name by the rules of the kernel and systemd is known
        by its PF and index: a tenant may have given it another VF's name.

        :param vf: VF that the interface belongs to, if any.
        """
        named = {
            each.name: each.network for each in self.members if not each.of_pf
        }
        if vf is None:
            return named.get(netdev)
        own = f"{vf.pf}v{vf.index}"
        if own in named:
            return named[own]
        if netdev in named and not _is_of(netdev, vf.pf):
            return named[netdev]
        found = (
            each.network
            for each in self.members
            if each.of_pf and each.name == vf.pf
        )
        return next(found, None)


def _is_of(netdev: str, pf: str) -> bool:
    """Return whether a name is that of a PF's VF, by its index."""
    return netdev.startswith(f"{pf}v") and netdev[len(pf) + 1 :].isdecimal()


def _member(item: str) -> Member:
    check_length(_WHAT, item, 128)
    network, colon, name = item.partition(":")
    of_pf = name.startswith(OF_PF)
    try:
        if colon:
            return Member(
                validation.physical_network(network),
                validation.interface(name.removeprefix(OF_PF)),
                of_pf,
            )
        problem = "no colon"
    except NameInvalid as error:
        problem = str(error)
    except ParseError as error:
        problem = error.problem
    raise ParseError(
        _WHAT,
        item,
        f"NETWORK:INTERFACE or NETWORK:pf:INTERFACE expected, but {problem}",
    )


def check(conf: cfg.ConfigOpts, service: str) -> None:
    """Register and read every option of ``[vif]``, before any is needed.

    :raises OptionRejected: with the first option that has a bad value.
    """
    options.register(conf)
    config.check(conf, ((options.GROUP, options.VIF_OPTS),), service)
    try:
        Pools.parse(conf[options.GROUP].parents)
    except ParseError as error:
        raise config.rejected(
            conf,
            options.GROUP,
            "parents",
            error.text,
            error.problem,
            service,
        ) from None
