# SPDX-License-Identifier: Apache-2.0

"""The compute driver: Nova's libvirt driver, with our changes to its domains.

``compute_driver = sriov_rt.RealtimeLibvirtDriver`` in nova.conf selects it.
"""

import functools
from collections.abc import Mapping
from typing import Any

import nova.conf
from nova import exception
from nova.compute import task_states
from nova.virt.libvirt import driver
from oslo_log import log as logging

from sriov_rt import request as requests
from sriov_rt.guest import engine
from sriov_rt.guest import plugins
from sriov_rt.guest.hook import Hook
from sriov_rt.host import compute_driver_socket
from sriov_rt.host import observer
from sriov_rt.host.root import Root
from sriov_rt.nova import containers
from sriov_rt.nova import devices
from sriov_rt.nova import local_host
from sriov_rt.nova import moves
from sriov_rt.nova import onload
from sriov_rt.nova import options
from sriov_rt.nova import recovery
from sriov_rt.nova import refusals
from sriov_rt.nova import vif

LOG = logging.getLogger(__name__)


class RealtimeLibvirtDriver(driver.LibvirtDriver):  # type: ignore[misc]
    """Nova's libvirt driver, with the guest hooks for ``sriov_rt`` flavors."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        """Make the driver, as nova-compute does when it starts.

        :raises OptionRejected: for an option with a bad value.
        """
        options.check(nova.conf.CONF)
        options.check_onload()
        super().__init__(virtapi, read_only)
        self._sriov_rt_host = local_host.LocalHost(Root("/"))
        self.vif_driver = vif.RealtimeVifDriver(self._host)

    def init_host(self, host: str) -> None:
        """Start; finish or undo interrupted plugs and unplugs of ports.

        Nova plugs the ports of its instances afterwards.
        """
        super().init_host(host)
        self._sriov_rt_name = host
        self._sriov_rt_bind_socket(host)
        moves.guard_claims(
            self.virtapi._compute.rt,  # noqa: SLF001
            self._sriov_rt_judge,
            self._sriov_rt_check_claim,
        )
        moves.guard_rescue(
            self.virtapi._compute,  # noqa: SLF001
            self._sriov_rt_check_rescue,
        )
        recovery.run(host, self.vif_driver, self._host)

    def _sriov_rt_bind_socket(self, host: str) -> None:
        try:
            # It is closed with this driver, at the latest when nova-compute
            # exits.
            self._sriov_rt_socket = compute_driver_socket.bind(
                host,
                compute_driver_socket.Driver(
                    observer.installed_version(),
                    nova.conf.CONF.libvirt.virt_type,
                ),
            )
        except OSError as error:
            LOG.warning(
                "cannot announce the compute driver to sriov-rt-agent: "
                "nothing that needs it is placed here (%s)",
                error,
            )

    def spawn(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Make a guest, for a build, an unshelve, an evacuation or a rebuild.

        The claim has checked that the host satisfies the flavor.

        :raises HostRefused: if the guest can't be on this host.
        :raises GuestRefused: if no host can give what its flavor requests.
        """
        if instance.task_state != task_states.REBUILD_SPAWNING:
            with refusals.recorded(context, instance):
                super().spawn(context, instance, *args, **kwargs)
            return
        try:
            super().spawn(context, instance, *args, **kwargs)
        except refusals.HostRefused as error:
            # Nova would take the guest for untouched, but it is gone by now,
            # or its network and volumes have been moved here.
            raise refusals.GuestRefused(
                instance_uuid=instance.uuid, reason=error.format_message()
            ) from error

    def _sriov_rt_judge(self, instance: Any, flavor: Any) -> None:
        """Refuse an instance whose flavor or ports this host can't serve.

        :raises HostRefused: if another host may serve it.
        :raises GuestRefused: if no host can.
        """
        if requests.asks(flavor.extra_specs or {}):
            with refusals.checking(instance):
                self._sriov_rt_judge_flavor(instance, flavor)
        stays = instance.host == self._sriov_rt_name
        self.vif_driver.check_ports(instance, flavor, stays=stays)

    def _sriov_rt_judge_flavor(self, instance: Any, flavor: Any) -> None:
        found = self._sriov_rt_host.why_not(flavor.extra_specs)
        if not found:
            return
        conf = nova.conf.CONF[options.GROUP]
        if conf.unfit_host == options.WARN:
            LOG.warning(
                "This host does not satisfy flavor %s: %s",
                flavor.name,
                "; ".join(each.message for each in found),
                instance=instance,
            )
            return
        raise refusals.unfit(instance, found)

    def _sriov_rt_check_claim(self, instance: Any, flavor: Any) -> None:
        """Refuse a move if this host could not render the guest afterwards.

        :raises HostRefused: if another host may serve it.
        :raises GuestRefused: if no host can.
        """
        if not requests.asks(flavor.extra_specs or {}):
            return
        with refusals.checking(instance):
            topology = instance.migration_context.new_numa_topology
            names = ", ".join(self._sriov_rt_hooks)
            LOG.debug("Guest hooks: %s", names, instance=instance)
            if topology is not None and not containers.is_lxc():
                self._get_live_migrate_numa_info(
                    topology, flavor, instance.image_meta
                )

    def migrate_disk_and_power_off(
        self,
        context: Any,
        instance: Any,
        dest: str,
        flavor: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Release a guest that is resized or cold migrated from here.

        :raises InstanceFaultRollback: if the new flavor doesn't allow the
            guest's devices; the guest still runs.
        """
        specs = flavor.extra_specs or {}
        if requests.asks(specs) and not containers.is_lxc():
            with refusals.rolled_back(), refusals.checking(instance):
                self._sriov_rt_check_devices(instance, specs)
        return super().migrate_disk_and_power_off(
            context, instance, dest, flavor, *args, **kwargs
        )

    def _sriov_rt_check_devices(
        self, instance: Any, specs: Mapping[str, str]
    ) -> None:
        try:
            xml = self._host.get_guest(instance).get_xml_desc()
        except exception.InstanceNotFound:
            return
        if found := devices.on_virtio(xml, specs):
            raise engine.Refused(found)

    def _sriov_rt_check_rescue(self, instance: Any, image: Any) -> None:
        """Refuse a rescue image whose disk or NICs the server can't have.

        :raises GuestRefused: if so; the server still runs.
        """
        specs = instance.flavor.extra_specs or {}
        if not requests.asks(specs) or containers.is_lxc():
            return
        with refusals.checking(instance):
            if found := devices.of_rescue(instance, image, specs):
                raise engine.Refused(found)

    def check_can_live_migrate_destination(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Check this host as the destination of a live migration.

        :raises MigrationPreCheckError: if it is refused; Nova then tries
            another host.
        """
        with refusals.before_migration():
            self._sriov_rt_judge(instance, instance.flavor)
        return super().check_can_live_migrate_destination(
            context, instance, *args, **kwargs
        )

    def post_claim_migrate_data(
        self, context: Any, instance: Any, migrate_data: Any, claim: Any
    ) -> Any:
        """Return what the source needs to know of the claim made here.

        :raises MigrationPreCheckError: if the claimed pCPUs won't do.
        """
        if not requests.asks(claim.flavor.extra_specs or {}):
            return super().post_claim_migrate_data(
                context, instance, migrate_data, claim
            )
        try:
            with refusals.before_migration(), refusals.checking(instance):
                return super().post_claim_migrate_data(
                    context, instance, migrate_data, claim
                )
        except exception.MigrationPreCheckError:
            # Nova has made the claim permanent, and drops it only for later
            # failures.
            claim.abort()
            raise

    def _get_live_migrate_numa_info(
        self, instance_numa_topology: Any, flavor: Any, image_meta: Any
    ) -> Any:
        info = super()._get_live_migrate_numa_info(
            instance_numa_topology, flavor, image_meta
        )
        specs = flavor.extra_specs or {}
        if requests.asks(specs):
            moves.place(info, specs, self._sriov_rt_host.facts())
        return info

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
        return plugins.load()

    def _get_guest_xml(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> str:
        """Return the domain's XML; Nova calls it wherever it defines one.

        :raises GuestRefused: if no host can give what its flavor requests.
        :raises HostRefused: if it can't be on this host.
        """
        xml: str = super()._get_guest_xml(context, instance, *args, **kwargs)
        specs = instance.flavor.extra_specs or {}
        if not requests.asks(specs):
            return xml
        with refusals.checking(instance):
            rendered = engine.render(
                xml,
                requests.parse(specs),
                self._sriov_rt_host.facts(),
                pinning=containers.pinning(instance),
                hooks=self._sriov_rt_hooks,
            )
        LOG.info(
            "Guest rendered by sriov-rt: %s",
            rendered.report.summary(),
            instance=instance,
        )
        return rendered.xml

    def attach_interface(
        self, context: Any, instance: Any, image_meta: Any, vif: Any
    ) -> None:
        """Attach a port if a spawn with this port would be accepted too.

        :raises GuestRefused: if it would be refused.
        """
        self.vif_driver.check_attachment(instance, vif, image_meta)
        super().attach_interface(context, instance, image_meta, vif)

    def _create_guest(
        self, context: Any, xml: str, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Define and start a guest, as Nova does.

        Nova calls it once the ports are plugged and a container's image is
        mounted, so both can be inspected here.

        :raises GuestRefused: if Onload can't be loaded in the container.
        """
        if containers.is_lxc() and onload.is_requested(instance):
            accelerated = self.vif_driver.is_accelerated(instance)
            xml = onload.started(xml, instance, accelerated)
            onload.notice(instance, accelerated)
        return super()._create_guest(context, xml, instance, *args, **kwargs)
