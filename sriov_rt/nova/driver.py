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

"""The compute driver: Nova's libvirt driver, its domains passed through us.

``compute_driver = sriov_rt.RealtimeLibvirtDriver`` in nova.conf names it.
"""

import functools
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import nova.conf
from nova.virt import hardware
from nova.virt.libvirt import driver
from oslo_log import log as logging

from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import HostFacts
from sriov_rt.guest import engine
from sriov_rt.guest import hooks
from sriov_rt.guest.hook import Hook
from sriov_rt.host import sources
from sriov_rt.host.observe import Observer
from sriov_rt.host.root import Root
from sriov_rt.nova import containers
from sriov_rt.nova import onload
from sriov_rt.nova import recovery
from sriov_rt.nova import vif
from sriov_rt.nova.refusal import refused

LOG = logging.getLogger(__name__)

#: Seconds for which one observation of this host serves: the instances of
#: one request come together.
FACTS_S = 5.0


class LocalHost:
    """This compute host, as its kernel and its nova.conf tell.

    :param root: where the host's files are.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        root: Root,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._observer: Observer | None = None
        self._facts: HostFacts | None = None
        self._observed = 0.0

    def facts(self) -> HostFacts:
        """Return the facts, at most :data:`FACTS_S` seconds old."""
        with self._lock:
            now = self._monotonic()
            if self._facts is None or now - self._observed > FACTS_S:
                if self._observer is None:
                    self._observer = self._make_observer()
                self._facts = self._observer.observe()
                self._observed = now
            return self._facts

    def _make_observer(self) -> Observer:
        host = nova.conf.CONF.host
        return Observer(
            self._root,
            host,
            host,
            {**sources.load(), "compute": _compute},
        )


def _compute(root: Root) -> ComputeFacts:
    # What Nova itself goes by, whatever its files say meanwhile.
    dedicated = hardware.get_cpu_dedicated_set()
    shared = hardware.get_cpu_shared_set()
    return ComputeFacts(
        dedicated=None if dedicated is None else frozenset(dedicated),
        shared=None if shared is None else frozenset(shared),
    )


class RealtimeLibvirtDriver(driver.LibvirtDriver):  # type: ignore[misc]
    """Nova's libvirt driver, with the guest hooks for ``sriov_rt`` flavors."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        super().__init__(virtapi, read_only)
        self._sriov_rt_host = LocalHost(Root("/"))
        self.vif_driver = vif.RealtimeVifDriver(self._host)

    def init_host(self, host: str) -> None:
        """Start, first finishing or undoing what was interrupted of ports.

        Nova plugs the ports of its instances after this.
        """
        super().init_host(host)
        recovery.run(host, self.vif_driver, self._host)

    def _has_numa_support(self) -> bool:
        return containers.has_numa_support() or super()._has_numa_support()

    def _get_guest_numa_config(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_guest_numa_config(*args, **kwargs)
        return containers.confine(found) if containers.is_lxc() else found

    def _find_default_for_image_property(
        self, instance: Any, image_property: str, *args: Any, **kwargs: Any
    ) -> Any:
        if image_property == "hw_vif_model":
            return self.vif_driver.default_model(instance)
        return super()._find_default_for_image_property(
            instance, image_property, *args, **kwargs
        )

    @functools.cached_property
    def _sriov_rt_hooks(self) -> Mapping[str, Hook]:
        return hooks.load()

    def _get_guest_xml(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> str:
        """Return the domain's XML; Nova calls it wherever it defines one.

        :raises GuestRefused: if the guest can't be what its flavor asks for.
        """
        xml: str = super()._get_guest_xml(context, instance, *args, **kwargs)
        specs = instance.flavor.extra_specs or {}
        if not requests.asks(specs):
            return xml
        try:
            rendered = engine.render(
                xml,
                requests.parse(specs),
                self._sriov_rt_host.facts(),
                pinning=containers.pinning(instance),
                hooks=self._sriov_rt_hooks,
            )
        except exceptions.SriovRtError as error:
            raise refused(instance, error) from error
        LOG.info(
            "Guest rendered by sriov-rt: %s",
            rendered.report.summary(),
            instance=instance,
        )
        return rendered.xml

    def _create_guest(
        self, context: Any, xml: str, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Define and start a guest, as Nova does.

        Nova calls it when ports are plugged and a container's image is
        mounted: neither is known before.

        :raises GuestRefused: if Onload would not get into the container.
        """
        if containers.is_lxc() and onload.is_asked(instance):
            accelerated = self.vif_driver.is_accelerated(instance)
            xml = onload.started(xml, instance, accelerated)
            onload.tell(instance, accelerated)
        return super()._create_guest(context, xml, instance, *args, **kwargs)
