# SPDX-License-Identifier: Apache-2.0

"""The agent's view of this host: its ports and its pools."""

import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt.codec import Unknown
from sriov_rt.host import compute_driver_socket
from sriov_rt.host import container
from sriov_rt.host.compute_driver_socket import Driver
from sriov_rt.host.root import Root
from sriov_rt.kernel.links import Links
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import host
from sriov_rt.vif import log
from sriov_rt.vif import options
from sriov_rt.vif import parents
from sriov_rt.vif import plugger
from sriov_rt.vif.host_offer import NOTHING
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import State
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: States of existing ports; the operator repairs one that has drifted.
_THERE = frozenset({State.PLUGGED, State.DRIFTED})
#: Seconds that nova-compute may take to restart. It plugs nothing meanwhile,
#: but may receive a request to plug as soon as it is back.
RESTART_S = 60.0


_NO_DRIVER = (
    "no nova-compute with sriov-rt's driver runs under this name, which alone "
    "plugs such ports; set [DEFAULT] compute_driver = "
    "sriov_rt.RealtimeLibvirtDriver in nova.conf and restart nova-compute, or "
    "stop this agent"
)


class AnotherName(exceptions.SriovRtError):
    """nova-compute with our driver runs here under another host name.

    :param name: host name of the agent.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            "nova-compute with sriov-rt's driver runs on this host under "
            f"another name than {name}; set [DEFAULT] host in neutron.conf to "
            "that of nova.conf and restart the agent"
        )


class ThisHost:
    """Ports, pools and compute driver of this host.

    :param conf: ``[vif]`` of sriov-rt.conf; see :func:`settings`.
    :param name: the name that Nova and Neutron call this host by.
    :param root: root of the /proc that lists the kernel's sockets.
    :param monotonic: the clock, seconds.
    :raises ParseError: if ``[vif] parents`` is not a list of parents.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        name: str,
        root: Root | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._root = root or Root("/")
        self._monotonic = monotonic
        self._looking = threading.Lock()
        self._driver: Driver | None = None
        self._driver_at = 0.0
        # The reason that was logged for the driver's absence.
        self._missing = ""
        self._plugger = plugger.of(conf)
        self._pools = Pools.parse(conf[options.GROUP].parents)
        # Logged so far: port to reason, and the error of the whole check.
        self._quarantined: dict[str, str] = {}
        self._problem = ""

    def recover(self) -> None:
        """Undo or finish interrupted plugs and unplugs; log failures."""
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
            LOG.info("vf=%s idle, reset to the baseline", name)

    def recheck(self) -> None:
        """Check quarantined ports again; log each once for each reason.

        A VF or parent becomes usable again once the container that hid an
        interface has ended.
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
        """Return the ports that are plugged where they were first plugged."""
        found = self._plugger.show()
        return [each for each in found if each.state in _THERE]

    def driver(self) -> Driver | None:
        """Return our driver in this host's nova-compute; log a change.

        It counts as running for RESTART_S after it is gone, so that a restart
        of nova-compute takes no network from the cloud.

        :returns: None if nothing would plug a port.
        """
        with self._looking:
            return self._look_for_driver()

    def _look_for_driver(self) -> Driver | None:
        now = self._monotonic()
        found = compute_driver_socket.observe(self._root, self._name)
        if isinstance(found, Driver):
            self._driver, self._driver_at = found, now
            self._missing = ""
            return found
        if self._driver is not None and now - self._driver_at <= RESTART_S:
            return self._driver
        self._driver = None
        why = _NO_DRIVER
        if isinstance(found, Unknown):
            why = f"it cannot be seen which driver runs: {found.reason}"
        if self._missing != why:
            self._missing = why
            LOG.warning("host=%s offers no parents: %s", self._name, why)
        return None

    def offer(self) -> Offer:
        """Return the parents and VFs that ports can use.

        :raises AnotherName: if nova-compute runs under another host name.
        """
        driver = self.driver()
        if driver is None:
            if compute_driver_socket.has_other_names(self._root, self._name):
                raise AnotherName(self._name)
            return NOTHING
        view = View(Links(), Vfs.of_host())
        return parents.offer(view, self._pools, driver.virt_type)


def settings(path: str) -> cfg.ConfigOpts:
    """Return this host's ``[vif]`` section, read by all programs that plug.

    :param path: path of sriov-rt.conf.
    :raises oslo_config.cfg.Error: if it cannot be read.
    :raises OptionRejected: for an option with a bad value.
    """
    conf = config.load([path])
    host.check(conf, "sriov-rt-neutron-agent")
    return conf
