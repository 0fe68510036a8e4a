# SPDX-License-Identifier: Apache-2.0

"""The vif driver: ports that are ours go to os-vif, all others to Nova."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import nova.conf
import os_vif
from lxml import etree
from nova import exception
from nova.network import model
from nova.network import os_vif_util
from nova.virt import osinfo
from nova.virt.libvirt import config
from nova.virt.libvirt import vif as libvirt_vif
from os_vif import exception as os_vif_exception
from oslo_log import log as logging

from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.guest import bare
from sriov_rt.guest import engine
from sriov_rt.nova import arrivals
from sriov_rt.nova import devices
from sriov_rt.nova import ports
from sriov_rt.nova.refusals import checking
from sriov_rt.nova.refusals import refused
from sriov_rt.request.words import Guest
from sriov_rt.vif import host_offer
from sriov_rt.vif import os_vif_plugin
from sriov_rt.vif import privsep

LOG = logging.getLogger(__name__)

#: What a ``bare`` guest gets in place of virtio; guest/bare.py allows none.
BARE_MODEL = model.VIF_MODEL_E1000E

_BOUND_TO_NOBODY = (model.VIF_TYPE_UNBOUND, model.VIF_TYPE_BINDING_FAILED)


class HostInterface(
    config.LibvirtConfigGuestHostdev  # type: ignore[misc]
):
    """An interface of the host that libvirt moves into a container.

    ``<hostdev mode='capabilities' type='net'>``: Nova has no class for it.
    libvirt neither configures the interface nor brings it up inside. When the
    container's namespace ends, a subinterface is deleted and a VF's interface
    returns to the host.

    :param name: the interface's name, on the host and in the container.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = "capabilities"
        self.type = "net"
        self.name = name

    def format_dom(self) -> Any:
        """Return the element."""
        element = super().format_dom()
        # libvirt supports this attribute for PCI devices only.
        element.attrib.pop("managed", None)
        source = etree.SubElement(element, "source")
        etree.SubElement(source, "interface").text = self.name
        return element


class RealtimeVifDriver(
    libvirt_vif.LibvirtGenericVIFDriver  # type: ignore[misc]
):
    """Nova's vif driver, extended by ports of vif type ``sriov_rt``.

    Nova plugs a port after it has written the domain and before it starts
    it, so the domain contains only what is known beforehand: the port's name.

    A virtual machine gets its port as a ready-made macvtap, ``<interface
    type='ethernet'>`` with ``managed='no'``, and not as ``type='direct'``.
    With ``direct``, libvirt would make the macvtap itself, on a parent that
    the domain has to name before one is chosen. It would have no alias that
    names its owner, its MAC would not be counted on the VF, and it could not
    be undone if nova-compute were killed in between. The advantage of
    ``direct``, following a guest that changes its MAC, is unwanted on a VF.
    libvirt 5.7 is required: since then such a target may be a macvtap
    (virNetDevMacVLanTapOpen in src/util/virnetdevmacvlan.c).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Instance to those of its ports that could not be accelerated as
        # requested.
        self._plain: dict[str, set[str]] = {}

    def is_accelerated(self, instance: Any) -> bool:
        """Return whether an instance may run over Onload.

        :returns: False if one of its plugged ports is not accelerated, since
            Onload is loaded for a whole process, not for a port.
        """
        return instance.uuid not in self._plain

    def default_model(self, instance: Any) -> str | None:
        """Return the NIC model that Nova should record for an instance.

        Nova records its choice at the first start as if it were the image's,
        and a bare guest is refused if its image requests virtio.
        """
        found: str | None = self.get_vif_model(instance.image_meta)
        specs = instance.flavor.extra_specs or {}
        if _takes_no_virtio(specs, instance.image_meta, found):
            found = BARE_MODEL
        return found

    def get_vif_devname(self, vif: Mapping[str, Any]) -> str:
        """Return the name of a port's interface on the host."""
        if ports.is_ours(vif):
            return ports.device(vif)
        name: str = super().get_vif_devname(vif)
        return name

    def get_config(
        self,
        instance: Any,
        vif: Mapping[str, Any],
        image_meta: Any,
        flavor: Any,
        virt_type: str,
    ) -> Any:
        """Return a port's configuration in the domain.

        :raises GuestRefused: if such a guest can't have such a port.
        """
        if ports.is_ours(vif):
            made = self._config(instance, vif, image_meta, flavor, virt_type)
        else:
            made = super().get_config(
                instance, vif, image_meta, flavor, virt_type
            )
        specs = flavor.extra_specs or {}
        if getattr(
            made, "net_type", None
        ) not in bare.VIRTIO_NICS and _takes_no_virtio(
            specs, image_meta, getattr(made, "model", None)
        ):
            _set_model(made, BARE_MODEL)
        return made

    def _config(
        self,
        instance: Any,
        vif: Mapping[str, Any],
        image_meta: Any,
        flavor: Any,
        virt_type: str,
    ) -> Any:
        """Return the domain's configuration of a port of ours."""
        specs = flavor.extra_specs or {}
        with checking(instance, asks=requests.asks(specs)):
            osvif_vif = ports.to_plug(vif, specs, virt_type)
        if virt_type == "lxc":
            return HostInterface(osvif_vif.vif_name)
        made = self.get_base_config(
            instance,
            vif["address"],
            image_meta,
            flavor,
            virt_type,
            vif["vnic_type"],
        )
        made.net_type = "ethernet"
        made.target_dev = osvif_vif.vif_name
        made.managed = "no"
        made.mtu = ports.mtu_of(vif)
        return made

    def check_attachment(
        self, instance: Any, vif: Mapping[str, Any], image_meta: Any
    ) -> None:
        """Check a port to be attached to a running guest, as a spawn would.

        :raises GuestRefused: if the guest allows no virtio and the port
            would use it.
        """
        flavor = instance.flavor
        specs = flavor.extra_specs or {}
        virt_type = nova.conf.CONF.libvirt.virt_type
        if virt_type == "lxc" or not _is_bare(specs):
            return
        made = self.get_config(instance, vif, image_meta, flavor, virt_type)
        domain = devices.domain(made.to_xml())
        if found := devices.on_virtio(domain, specs):
            raise refused(instance, engine.Refused(found))

    def check_ports(
        self, instance: Any, flavor: Any, *, stays: bool = False
    ) -> None:
        """Check the ports that an instance brings along, as a spawn would.

        At a build the instance has no ports yet. Only ports that Neutron will
        bind to parents of this host are checked. If they can't be listed, a
        flavor that requests nothing of ours passes.

        :param flavor: the flavor that the instance will have here.
        :param stays: whether it is on this host already: its ports stay bound.
        :raises GuestRefused: if such a guest can't have one of them.
        :raises HostRefused: if this host has no place for one.
        """
        if "info_cache" not in instance:
            return
        specs = flavor.extra_specs or {}
        asks = requests.asks(specs)
        try:
            vifs = instance.get_network_info()
            if stays:
                found = [each for each in vifs if ports.is_ours(each)]
            else:
                found = arrivals.candidates(vifs, privsep.networks)
        except Exception:
            if asks:
                raise
            LOG.debug("Ports not checked", instance=instance, exc_info=True)
            return
        if found:
            with checking(instance, asks=asks):
                self._check(instance, found, specs, stays=stays)

    def _check(
        self,
        instance: Any,
        vifs: Sequence[Mapping[str, Any]],
        specs: Mapping[str, str],
        *,
        stays: bool,
    ) -> None:
        virt_type = nova.conf.CONF.libvirt.virt_type
        info = os_vif_util.nova_to_osvif_instance(instance)
        offer = host_offer.NOTHING if stays else privsep.offer(virt_type)
        for each in vifs:
            vif = each if stays else arrivals.bound(each, offer)
            if vif is not None:
                os_vif_plugin.check(ports.to_plug(vif, specs, virt_type), info)

    def plug(self, instance: Any, vif: Mapping[str, Any]) -> None:
        """Plug a port; a plugged port is left as it is.

        :raises VirtualInterfacePlugException: with the sentence that says
            why. nova-compute survives this exception at its start, and tries
            a build on another host.
        """
        if not ports.is_ours(vif):
            super().plug(instance, vif)
            return
        virt_type = nova.conf.CONF.libvirt.virt_type
        if virt_type == "lxc" and self._runs(instance):
            # libvirt has moved its interface into the container.
            LOG.debug(
                "port=%s left as it is: its container runs",
                vif["id"],
                instance=instance,
            )
            return
        try:
            osvif_vif = ports.to_plug(
                vif,
                instance.flavor.extra_specs or {},
                virt_type,
                _numa_node(instance),
            )
            accelerated = osvif_vif.port_profile.onload
            os_vif.plug(
                osvif_vif, os_vif_util.nova_to_osvif_instance(instance)
            )
            plain = accelerated and not osvif_vif.port_profile.onload
            self._note(instance.uuid, vif["id"], plain)
        except (
            exceptions.SriovRtError,
            os_vif_exception.ExceptionBase,
        ) as error:
            raise exception.VirtualInterfacePlugException(
                _sentence(error)
            ) from error

    def unplug(self, instance: Any, vif: Mapping[str, Any]) -> None:
        """Unplug a port; it is no error if it is gone.

        A port that is no longer bound in Neutron was ours if the interface
        that we made for it exists. An error with such a port does not prevent
        Nova's own unplug.

        :raises VirtualInterfaceUnplugException: with the sentence.
        """
        if ports.is_ours(vif):
            self._unplug(instance, vif)
            return
        if vif["type"] in _BOUND_TO_NOBODY and ports.has_interface(vif):
            try:
                self._unplug(instance, vif)
            except exception.VirtualInterfaceUnplugException as error:
                LOG.error(
                    "port=%s is left behind: %s",
                    vif["id"],
                    error,
                    instance=instance,
                )
        super().unplug(instance, vif)

    def _note(self, instance: str, port: str, plain: bool) -> None:
        ports_of = self._plain.setdefault(instance, set())
        (ports_of.add if plain else ports_of.discard)(port)
        if not ports_of:
            del self._plain[instance]

    def _unplug(self, instance: Any, vif: Mapping[str, Any]) -> None:
        self._note(instance.uuid, vif["id"], False)
        try:
            os_vif.unplug(
                ports.gone(vif), os_vif_util.nova_to_osvif_instance(instance)
            )
        except os_vif_exception.ExceptionBase as error:
            raise exception.VirtualInterfaceUnplugException(
                _sentence(error)
            ) from error

    def _runs(self, instance: Any) -> bool:
        try:
            found: bool = self.host.get_guest(instance).is_active()
        except exception.InstanceNotFound:
            return False
        return found


def _takes_no_virtio(
    specs: Mapping[str, str], image_meta: Any, found: str | None
) -> bool:
    """Return whether a bare guest has virtio only because of Nova's default.

    :param found: the model that Nova chose.
    """
    return (
        found == model.VIF_MODEL_VIRTIO
        and _is_bare(specs)
        and osinfo.HardwareProperties(image_meta).network_model is None
    )


def _is_bare(specs: Mapping[str, str]) -> bool:
    return requests.asks(specs) and requests.parse(specs).guest is Guest.BARE


def _set_model(made: Any, name: str) -> None:
    made.model = name
    # The other settings apply to virtio only.
    made.driver_name = None
    made.driver_packed = False
    made.vhost_queues = None
    made.vhost_rx_queue_size = None
    made.vhost_tx_queue_size = None


def _numa_node(instance: Any) -> int | None:
    """Return the host NUMA node of an instance on one node only, else None."""
    topology = instance.numa_topology
    if topology is None or len(topology.cells) != 1:
        return None
    node: int = topology.cells[0].id
    return node


def _sentence(error: Exception) -> str:
    # os_vif's own message starts with the whole VIF, and Nova truncates a
    # fault to 255 bytes.
    inner = getattr(error, "kwargs", {}).get("err")
    return str(error if inner is None else inner)
