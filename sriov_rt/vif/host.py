# SPDX-License-Identifier: Apache-2.0

"""The host that ports are made on, put together from its configuration."""

import contextlib
import dataclasses
import logging
import pathlib
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from contextlib import AbstractContextManager

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.codec import Unknown
from sriov_rt.host import values
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.links import Links
from sriov_rt.nic import affinity
from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.vfs import Vfs
from sriov_rt.onload import nics
from sriov_rt.onload import options as onload_options
from sriov_rt.vif import alias
from sriov_rt.vif import counts
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import options
from sriov_rt.vif import settings
from sriov_rt.vif.counts import NOT_COUNTED
from sriov_rt.vif.counts import Counts
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Record
from sriov_rt.vif.records import Records
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: Configuration file that is read, if it exists, when none is named.
CONFIG_FILE = f"/{CONFIG}"

#: How long to wait for the kernel to end a namespace and to bring a VF's
#: interface back out of it; and the pause between two looks. Seconds.
PATIENCE_S = 2.0
PAUSE_S = 0.05

#: Errors of interfaces that have gone, and need no way back.
GONE = (kernel_errors.NoSuchLink, NoSuchDevice)

#: Keeps the thread off the CPU that serves a VF's PF while it sets the VF's
#: links (see nic.affinity); None for no VF.
Away = Callable[[VfId | None], AbstractContextManager[object]]


def anywhere(vf: VfId | None) -> AbstractContextManager[object]:
    """Leave the thread free to run on any CPU."""
    return contextlib.nullcontext()


#: Rules of a host for which none are given.
DEFAULTS = Rules()


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """Host that ports are made on, with its links, VFs and records.

    :param pools: the parents of each physical network.
    :param locks: exclude other processes, and threads of this one.
    :param away: keeps the thread off a CPU while it sets links.
    :param patience_s: how long to wait for the kernel to end a namespace, in
        seconds; None for PATIENCE_S.
    """

    links: Links
    vfs: Vfs
    pools: Pools
    records: Records
    locks: Locks
    rules: Rules = DEFAULTS
    away: Away = anywhere
    patience_s: float | None = None
    counts: Counts = NOT_COUNTED

    def observe(self, *without: str, mend: bool = False) -> View:
        """Return a view of the host now; VFs are read when they are needed.

        :param without: ports that have gone, which the view leaves out.
        :param mend: whether to mend damaged records first.
        """
        found = self.mended() if mend else self.records.all()
        left = [each for each in found if each.port not in without]
        return self.view(left if without else found)

    def view(
        self, records: Sequence[Record], avoid: Collection[str] = ()
    ) -> View:
        """Return a view of the host now, with these records; see View."""
        return View(self.links, self.vfs, records, avoid)

    def is_pooled(self, link: Link, view: View) -> bool:
        """Return whether an interface is in a pool, so that we may set it."""
        vf = view.vf_of(link)
        network = self.pools.network_of(link.name, vf.id if vf else None)
        return network is not None

    def mended(self) -> tuple[Record, ...]:
        """Mend the damaged records, and return the records of all ports.

        The record of a port that another process works on stays as it is.

        :raises RecordsBroken: if the records cannot be read.
        """
        records = self.records.all()
        damaged = [each.port for each in records if each.damaged]
        for port in damaged:
            with (
                contextlib.suppress(errors.Busy),
                self.locks.port(port, wait=False),
            ):
                self.mend(port)
        return self.records.all() if damaged else records

    def mend(self, port: str) -> None:
        """Quarantine a port whose record is damaged, and keep the file.

        The caller has locked the port. An alias is no proof, but here it keeps
        its interface out of use.

        :raises RecordsBroken: if the records cannot be read.
        """
        record = self.records.get(port)
        if record is None or not record.damaged:
            return
        try:
            self._set_aside(record)
        except LinkError as error:
            LOG.error("%s: %s", log.about(port), error)

    def _set_aside(self, record: Record) -> None:
        found = record
        if not record.parent_index and record.vf is None:
            elsewhere = self.links.all(everywhere=True, thorough=True)
            found = alias.located(record, self.links.all(), elsewhere)
        if not self.records.damaged.is_set_aside(record.port):
            self.records.damaged.set_aside(found)
        elif found != record:
            self.records.put(found)

    def deadline(self) -> float:
        """Return when to stop waiting for the kernel, by time.monotonic()."""
        patience_s = PATIENCE_S if self.patience_s is None else self.patience_s
        return time.monotonic() + patience_s


def records(files: Sequence[str] | None = None) -> Records:
    """Return the records of the ports of this host.

    :param files: None for CONFIG_FILE, or the defaults if there is none.
    :raises ConfigurationUnreadable: if they cannot be read.
    """
    with config.reading():
        conf = read(files)
        options.register(conf)
        directory = conf[options.GROUP].records
    return Records(pathlib.Path(directory).absolute())


def read(files: Sequence[str] | None) -> cfg.ConfigOpts:
    """Return the configuration of files; see :func:`records`."""
    if files is None:
        files = [CONFIG_FILE] if pathlib.Path(CONFIG_FILE).exists() else []
    return config.load(files)


def check(conf: cfg.ConfigOpts, service: str) -> None:
    """Register and read every option that a plugger needs.

    :raises OptionRejected: with the first option that has a bad value.
    """
    settings.check(conf, service)
    onload_options.register(conf)
    config.check(
        conf, ((onload_options.GROUP, onload_options.ONLOAD_OPTS),), service
    )


def of(conf: cfg.ConfigOpts) -> Host:
    """Return this host; nothing is touched yet.

    :param conf: configuration that has read its files; ``[vif]`` and
        ``[onload]`` are registered here.
    :raises ParseError: if ``[vif] parents`` is no list of parents.
    """
    options.register(conf)
    onload_options.register(conf)
    section = conf[options.GROUP]
    second = conf[onload_options.GROUP].second_endpoint
    directory = pathlib.Path(section.records).absolute()
    return Host(
        links=Links(),
        vfs=Vfs.of_host(),
        pools=Pools.parse(section.parents),
        records=Records(directory),
        locks=Locks(directory, section.lock_timeout),
        rules=Rules(
            allow_trust=section.allow_trust,
            carrier_wait_s=section.carrier_wait,
            restore=section.restore,
            unaccelerated=second == onload_options.UNACCELERATED,
            onload_nics=_onload_nics,
        ),
        away=away,
        counts=counts.of_host(),
    )


def _onload_nics() -> Collection[str]:
    found = nics.observe(Root())
    if isinstance(found, Unknown):
        LOG.warning(
            "the NICs that Onload can use are unknown (%s)", found.reason
        )
        return ()
    return found


def away(vf: VfId | None) -> AbstractContextManager[object]:
    """Keep the thread off the CPU that serves a VF's PF.

    :param vf: if it is None, or its PF is absent, the thread may run anywhere.
    """
    root = Root()
    pf = None
    if vf is not None:
        pf = values.link_name(root, f"sys/class/net/{vf.pf}/device")
    if not isinstance(pf, str):
        return contextlib.nullcontext()
    return affinity.away_from(root, pf)
