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
from sriov_rt.neutron.host_offer import Offer
from sriov_rt.nic.vfs import Vfs
from sriov_rt.request.words import VifKind
from sriov_rt.vif import host
from sriov_rt.vif import options
from sriov_rt.vif.links import NetlinkLinks
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import State
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)


class ThisHost:
    """The real one.

    :param conf: ``[vif]`` of sriov-rt.conf; see :func:`settings`.
    :raises ParseError: if ``[vif] parents`` is no list of parents.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._plugger = host.plugger(conf)
        self._pools = Pools.parse(conf[options.GROUP].parents)

    def recover(self) -> None:
        """Undo or finish what was interrupted; what can't be is logged."""
        try:
            found = self._plugger.recover()
        except exceptions.SriovRtError as error:
            LOG.error(
                "ports that were interrupted stay as they are: %s; mend it "
                "and start the agent again",
                error,
            )
            return
        for port, why in found.failed:
            LOG.error(
                "port=%s something of it is left (%s); mend it and start the "
                "agent again",
                port,
                why,
            )
        for word, names in (
            ("plug was undone", found.undone),
            ("unplug was finished", found.finished),
        ):
            for port in names:
                LOG.info("port=%s its interrupted %s", port, word)
        for port in found.quarantined:
            LOG.error(
                "port=%s is quarantined: its interface was not seen to come "
                "back; see 'sriov-rt vif show'",
                port,
            )
        for name in found.cleaned:
            LOG.info("vf=%s of the pools was not clean, and is now", name)

    def ports(self) -> Sequence[Plugged]:
        """Return the ports that are plugged, where they were plugged."""
        found = self._plugger.show()
        return [each for each in found if each.state == State.PLUGGED]

    def offer(self) -> Offer:
        """Return what ports can be made of."""
        view = View(NetlinkLinks(), Vfs.of_host())
        found = parents(view, self._pools)
        return Offer(found, frozenset(VifKind))


def settings(path: str) -> cfg.ConfigOpts:
    """Return this host's ``[vif]`` section, as all that plug ports read it.

    :param path: of sriov-rt.conf.
    :raises oslo_config.cfg.Error: if it cannot be read.
    """
    conf = config.load([path])
    options.register(conf)
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
