# SPDX-License-Identifier: Apache-2.0

"""The plugger of this host, put together from its configuration."""

import contextlib
import logging
import pathlib
from collections.abc import Collection
from collections.abc import Sequence
from contextlib import AbstractContextManager

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.codec import Unknown
from sriov_rt.host import values
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.kernel.links import Links
from sriov_rt.nic import affinity
from sriov_rt.nic.model import VfId
from sriov_rt.nic.vfs import Vfs
from sriov_rt.onload import nics
from sriov_rt.onload import options as onload_options
from sriov_rt.vif import counts
from sriov_rt.vif import options
from sriov_rt.vif import settings
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.plugger import Plugger
from sriov_rt.vif.records import Records
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.view import Host

LOG = logging.getLogger(__name__)

#: Read where no file is named, if it is there.
CONFIG_FILE = f"/{CONFIG}"


def configured(files: Sequence[str] | None = None) -> Plugger:
    """Return the plugger that configuration files describe.

    :param files: None for CONFIG_FILE, or the defaults if there is none.
    :raises ConfigurationUnreadable: if they cannot be read.
    """
    with config.reading():
        return plugger(_read(files))


def records(files: Sequence[str] | None = None) -> Records:
    """Return the records of the ports of this host.

    :param files: as of :func:`configured`.
    :raises ConfigurationUnreadable: if they cannot be read.
    """
    with config.reading():
        conf = _read(files)
        options.register(conf)
        directory = conf[options.GROUP].journal
    return Records(pathlib.Path(directory).absolute())


def _read(files: Sequence[str] | None) -> cfg.ConfigOpts:
    if files is None:
        files = [CONFIG_FILE] if pathlib.Path(CONFIG_FILE).exists() else []
    return config.load(files)


def check(conf: cfg.ConfigOpts, service: str) -> None:
    """Register and read every option that a plugger needs.

    :raises OptionRejected: naming the first option with a bad value.
    """
    settings.check(conf, service)
    onload_options.register(conf)
    config.check(
        conf, ((onload_options.GROUP, onload_options.ONLOAD_OPTS),), service
    )


def plugger(conf: cfg.ConfigOpts) -> Plugger:
    """Return the plugger that acts on this host; nothing is touched yet.

    :param conf: has read its files; ``[vif]`` and ``[onload]`` are
        registered here.
    :raises ParseError: if ``[vif] parents`` is no list of parents.
    """
    options.register(conf)
    onload_options.register(conf)
    section = conf[options.GROUP]
    second = conf[onload_options.GROUP].second_endpoint
    directory = pathlib.Path(section.journal).absolute()
    return Plugger(
        Host(
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

    :param vf: None for none; one whose PF is not there keeps it off none.
    """
    root = Root()
    pf = None
    if vf is not None:
        pf = values.link_name(root, f"sys/class/net/{vf.pf}/device")
    if not isinstance(pf, str):
        return contextlib.nullcontext()
    return affinity.away_from(root, pf)
