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

"""This host, as the agent sees it: its ports and its pools."""

import logging
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt.host import container
from sriov_rt.kernel.links import Links
from sriov_rt.neutron.host_offer import Offer
from sriov_rt.nic.vfs import Vfs
from sriov_rt.request.words import VifKind
from sriov_rt.vif import host
from sriov_rt.vif import log
from sriov_rt.vif import options
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import State
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: A port that has drifted is there; its network is the operator's to mend.
_THERE = frozenset({State.PLUGGED, State.DRIFTED})


class ThisHost:
    """The real one.

    :param conf: ``[vif]`` of sriov-rt.conf; see :func:`settings`.
    :raises ParseError: if ``[vif] parents`` is no list of parents.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._plugger = host.plugger(conf)
        self._pools = Pools.parse(conf[options.GROUP].parents)
        # What was logged: port to reason, and why none could be looked at.
        self._quarantined: dict[str, str] = {}
        self._problem = ""

    def recover(self) -> None:
        """Undo or finish what was interrupted; what can't be is logged."""
        if not container.sees_host_processes():
            LOG.warning(
                "the agent does not see the host's processes: a port in a "
                "container's network namespace is not reported, and once "
                "unplugged it is quarantined. Give the agent's container the "
                "host's process ids (--pid=host, hostPID: true)"
            )
        try:
            found = self._plugger.recover()
        except exceptions.SriovRtError as error:
            LOG.error(
                "interrupted plugs and unplugs were not recovered: %s; repair "
                "that and restart the agent",
                error,
            )
            return
        for port, why in found.failed:
            LOG.error(
                "port=%s its interrupted plug or unplug was not recovered "
                "(%s); repair that and restart the agent",
                port,
                why,
            )
        for word, names in (
            ("plug was undone", found.undone),
            ("unplug was finished", found.finished),
        ):
            for port in names:
                LOG.info("port=%s its interrupted %s", port, word)
        for name in found.cleaned:
            LOG.info(
                "vf=%s of the pools was idle and dirty; it is clean now", name
            )

    def recheck(self) -> None:
        """Look again at quarantined ports; log each, once for a reason.

        A VF or parent serves again once the container has ended that hid an
        interface.
        """
        try:
            found = self._plugger.recheck()
        except exceptions.SriovRtError as error:
            if self._problem != str(error):
                self._problem = str(error)
                LOG.error("quarantined ports were not checked: %s", error)
            return
        self._problem = ""
        for each in found:
            if self._quarantined.get(each.port) != each.reason:
                LOG.warning(
                    "%s: quarantined (%s)",
                    log.about(each.port, each.vf),
                    each.reason,
                )
        self._quarantined = {each.port: each.reason for each in found}

    def ports(self) -> Sequence[Plugged]:
        """Return the ports that are plugged, where they were plugged."""
        found = self._plugger.show()
        return [each for each in found if each.state in _THERE]

    def offer(self) -> Offer:
        """Return what ports can be made of."""
        view = View(Links(), Vfs.of_host())
        found = parents(view, self._pools)
        return Offer(found, frozenset(VifKind))


def settings(path: str) -> cfg.ConfigOpts:
    """Return this host's ``[vif]`` section, as all that plug ports read it.

    :param path: of sriov-rt.conf.
    :raises oslo_config.cfg.Error: if it cannot be read.
    :raises OptionRejected: for an option with a bad value.
    """
    conf = config.load([path])
    host.check(conf, "sriov-rt-neutron-agent")
    return conf


def parents(view: View, pools: Pools) -> Mapping[str, int]:
    """Return how many parents each physical network has on a host.

    :param pools: those that the operator names; what is not there, or has
        been given away as a whole VF, carries nothing.
    """
    found: dict[str, set[str]] = {}
    for member in pools.members:
        names = found.setdefault(member.network, set())
        if not member.of_pf:
            if view.on_host(member.name) is not None:
                names.add(member.name)
            continue
        for vf in view.vfs_of(member.name):
            netdev = vf.netdev or ""
            if pools.network_of(netdev, vf.id) == member.network:
                names.add(netdev)
    return {network: len(names) for network, names in found.items() if names}
