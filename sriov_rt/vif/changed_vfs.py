# SPDX-License-Identifier: Apache-2.0

"""VFs that somebody has changed behind who has them, and what sets them back.

Another manager may have meant it, so nothing is set back here.
"""

from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt import config
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.nic import provision
from sriov_rt.nic import tenancy
from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.model import VfState
from sriov_rt.nic.provision import Amount
from sriov_rt.nic.vfs import Vfs
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.vif import options
from sriov_rt.vif.model import Record
from sriov_rt.vif.records import Records

#: Instance that has the VF, empty for one of the host's own; and what was
#: changed.
ChangedVf = tuple[str, Reason]


def of_host(root: Root) -> tuple[ChangedVf, ...]:
    """Return those of this host; none of a copy of one.

    :raises SriovRtError: if VFs, records or the configuration cannot be read.
    """
    if not root.is_running():
        return ()
    with config.reading():
        there = root.exists(CONFIG) is not False
        conf = config.load([root.locate(CONFIG)] if there else [])
        options.register(conf)
    amounts = provision.check(conf, provision.SERVICE)
    records = Records(root.locate(conf[options.GROUP].records))
    vfs = Vfs.of_host()

    def look() -> tuple[ChangedVf, ...]:
        try:
            return tuple(find(vfs.list(), records.every(), amounts))
        except NoSuchDevice:
            return ()  # a PF goes or comes just now

    found = look()
    # A port that is plugged between two reads has its VF changed as well.
    again = look() if found else ()
    return tuple(each for each in found if each in again)


def find(
    states: Sequence[VfState],
    records: Sequence[Record],
    amounts: Sequence[Amount],
) -> Iterator[ChangedVf]:
    """Yield those of some VFs, one for each port on them.

    :param records: of the ports.
    :param amounts: what ``[nic]`` says of VFs.
    """
    by_pf = {each.pf: each for each in amounts}
    for state in states:
        ports = [
            each
            for each in records
            if each.vf == state.id.address
            and each.inode in (tenancy.UNKNOWN_INODE, state.tenancy.inode)
        ]
        if any(each.is_in_progress for each in ports):
            continue
        if ports:
            yield from _of_ports(state, ports)
        elif not state.tenancy.holders and state.id.pf in by_pf:
            yield from _of_host(state, by_pf[state.id.pf])


def _of_ports(state: VfState, ports: Sequence[Record]) -> Iterator[ChangedVf]:
    drifted = tenancy.drift(state.tenancy, state.settings)
    for each in ports if drifted else ():
        why = reason(
            "port_vf_changed",
            address=state.id.address,
            port=each.port,
            why=", ".join(drifted),
            command=tenancy.command(
                state.tenancy, state.settings, state.id.pf, state.id.index
            ),
        )
        yield each.owner, why


def _of_host(state: VfState, amount: Amount) -> Iterator[ChangedVf]:
    mac, now = amount.mac_of(state.id.index), state.device.mac
    # The interface of one that is elsewhere is not seen.
    if state.netdev is not None and None not in (mac, now) and mac != now:
        why = reason(
            "vf_mac_changed",
            address=state.id.address,
            name=state.netdev,
            mac=now,
            configured=mac,
        )
        yield "", why
