# SPDX-License-Identifier: Apache-2.0

"""Facts of ports: the NICs of the pools, and the accelerated ports.

The configuration is read below the root. The ports come from the records of
the running host: those are files, so that no reader has to enter a namespace.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.codec import Unknown
from sriov_rt.exceptions import SriovRtError
from sriov_rt.facts import Endpoint
from sriov_rt.facts import HeldVf
from sriov_rt.facts import LostPort
from sriov_rt.facts import QuarantinedPort
from sriov_rt.facts import VifFacts
from sriov_rt.host.interfaces import DEVICES
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.nic.tenancy import UNKNOWN_INODE
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.vif import options
from sriov_rt.vif.lost import LostPorts
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Records
from sriov_rt.vif.settings import Pools

NET = "sys/class/net"

#: NICs by physical network.
Networks = Mapping[str, tuple[str, ...]]


def observe(root: Root) -> VifFacts:
    """Return the NICs of each physical network, and the accelerated ports."""
    try:
        settings = _settings(root)
        parents, directory = settings.parents, settings.records
    except cfg.Error as error:
        unknown = Unknown(str(error))
        return VifFacts(
            unknown, unknown, unknown, _holders(root), unknown, unknown
        )
    records = _records(root, directory)
    pools, missing = _pools(root, parents, records)
    return VifFacts(
        pools,
        _endpoints(records),
        _quarantined(records),
        holders=_holders(root),
        missing=missing,
        lost=_lost(root, directory, records),
    )


def _settings(root: Root) -> cfg.ConfigOpts.GroupAttr:
    there = root.exists(CONFIG) is not False
    conf = config.load([root.locate(CONFIG)] if there else [])
    options.register(conf)
    settings: cfg.ConfigOpts.GroupAttr = conf[options.GROUP]
    return settings


def _pools(
    root: Root,
    parents: Sequence[str],
    records: tuple[Record, ...] | Unknown,
) -> tuple[Networks | Unknown, Networks | Unknown]:
    """Return the NICs of each physical network, and the missing parents."""
    try:
        pools = Pools.parse(parents)
    except SriovRtError as error:
        return Unknown(str(error)), Unknown(str(error))
    found: dict[str, set[str]] = {each: set() for each in pools.networks}
    missing: dict[str, list[str]] = {}
    away = {} if isinstance(records, Unknown) else _away(records)
    for member in pools.members:
        nic = nic_of(root, member.name)
        if nic is not None and member.of_pf and _has_no_vfs(root, member.name):
            nic = None
        nic = away.get(member.name) if nic is None else nic
        if isinstance(nic, Unknown):
            return nic, nic
        if nic is None and isinstance(records, Unknown) and root.is_running():
            return records, records  # a port may have it
        if nic is not None:
            found[member.network].add(nic)
        else:
            named = missing.setdefault(member.network, [])
            named.append(str(member).partition(":")[2])
    return (
        {name: tuple(sorted(nics)) for name, nics in found.items()},
        {name: tuple(names) for name, names in missing.items()},
    )


def _away(records: Iterable[Record]) -> dict[str, str]:
    """Return the NICs of parents that whole-VF ports use, by parent."""
    return {
        each.parent: each.nic
        for each in records
        if each.kind == Kind.VF and each.nic
    }


def _has_no_vfs(root: Root, pf: str) -> bool:
    text = root.read_text(f"{NET}/{pf}/device/sriov_numvfs")
    return not isinstance(text, Unknown) and text.strip() == "0"


def nic_of(root: Root, name: str) -> str | None | Unknown:
    """Return the NIC of an interface; for a VF's interface, the PF.

    :returns: None if it is not here; a VF's may be in a container.
    """
    there = root.exists(f"{NET}/{name}")
    if there is not True:
        return there or None
    physfn = f"{NET}/{name}/device/physfn"
    is_vf = root.exists(physfn)
    if is_vf is not True:
        return is_vf or name
    names = root.list_dir(f"{physfn}/net")
    if isinstance(names, Unknown):
        return names
    return names[0] if names else None


def _records(root: Root, directory: str) -> tuple[Record, ...] | Unknown:
    if not root.is_running():
        return Unknown("the ports of a host are known only while it runs")
    try:
        return Records(root.locate(directory)).all()
    except OSError as error:
        return Unknown(f"{directory}: {error.strerror}")
    except SriovRtError as error:
        return Unknown(str(error))


def _endpoints(
    records: tuple[Record, ...] | Unknown,
) -> tuple[Endpoint, ...] | Unknown:
    if isinstance(records, Unknown):
        return records
    for each in records:
        if each.damaged:
            # The damaged record may be of an accelerated port.
            return Unknown(
                f"the record of port {each.port} is damaged; see 'sriov-rt "
                "vif show'"
            )
    return accelerated(records)


def _quarantined(
    records: tuple[Record, ...] | Unknown,
) -> tuple[QuarantinedPort, ...] | Unknown:
    if isinstance(records, Unknown):
        return records
    return tuple(
        QuarantinedPort(
            each.port,
            each.owner,
            each.nic,
            each.vf,
            each.reason,
        )
        for each in records
        if each.is_quarantined
    )


def _lost(
    root: Root, directory: str, records: tuple[Record, ...] | Unknown
) -> tuple[LostPort, ...] | Unknown:
    """Return the ports that 'vif restore' has noted, or will find.

    Files show the latter only in part: ports whose VF was made again.
    """
    if isinstance(records, Unknown):
        return records
    tenancies = Tenancies(root)
    lost = {
        each.port: each for each in records if _is_lost(root, tenancies, each)
    }
    try:
        noted = LostPorts(Records(root.locate(directory))).all()
    except SriovRtError as error:
        return Unknown(str(error))
    for each in noted:
        lost.setdefault(each.port, each)
    return tuple(
        LostPort(
            each.port, each.owner, each.interface, each.kind is Kind.MACVTAP
        )
        for _, each in sorted(lost.items())
    )


def _is_lost(root: Root, tenancies: Tenancies, record: Record) -> bool:
    if record.vf is None or record.state is not State.PLUGGED:
        return False
    if record.damaged or record.inode == UNKNOWN_INODE:
        return False
    now = tenancies.get(record.vf).inode
    if now == UNKNOWN_INODE:
        return root.exists(f"{DEVICES}/{record.vf}") is False
    return now != record.inode


def _holders(root: Root) -> tuple[HeldVf, ...] | Unknown:
    if not root.is_running():
        return Unknown("whose a host's VFs are is known only while it runs")
    try:
        found = Tenancies(root).all()
    except SriovRtError as error:
        return Unknown(str(error))
    return tuple(
        HeldVf(
            each.address,
            _pf(root, each.address),
            holder.kind,
            str(holder),
            holder.state,
            holder.reason,
        )
        for each in found
        for holder in each.holders
    )


def _pf(root: Root, address: str) -> str:
    names = root.list_dir(f"{DEVICES}/{address}/physfn/net")
    return "" if isinstance(names, Unknown) or not names else names[0]


def accelerated(records: Iterable[Record]) -> tuple[Endpoint, ...]:
    """Return the accelerated ports, sorted."""
    found = [
        Endpoint(each.port, each.owner, each.network, each.nic)
        for each in records
        if each.network and each.nic
    ]
    return tuple(
        sorted(found, key=lambda each: (each.nic, each.network, each.port))
    )
