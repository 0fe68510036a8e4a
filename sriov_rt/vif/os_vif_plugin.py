# SPDX-License-Identifier: Apache-2.0

"""The os-vif plugin ``sriov_rt``, for callers of os_vif.plug().

It translates and passes on. Loading it reads no configuration and touches no
interface.
"""

from typing import Any
from typing import ClassVar

from os_vif import exception
from os_vif import plugin
from os_vif.objects import host_info
from os_vif.objects import vif as vifs
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import versionutils
from oslo_versionedobjects import base
from oslo_versionedobjects import fields as types

from sriov_rt import exceptions
from sriov_rt.kernel.tc import Limits
from sriov_rt.vif import log
from sriov_rt.vif import privsep
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug

LOG = logging.getLogger(__name__)

#: The name of the plugin, in ``vif.plugin``.
NAME = "sriov_rt"


@base.VersionedObjectRegistry.register
class VIFPortProfileSriovRt(vifs.VIFPortProfileBase):  # type: ignore[misc]
    """How a port is made; see :class:`sriov_rt.vif.model.Plug`.

    After a plug, ``onload`` says whether the port is accelerated.
    """

    # Version 1.0: Initial release, with VIFPortProfileBase 1.1
    # Version 1.1: network and onload
    VERSION = "1.1"

    fields: ClassVar[dict[str, Any]] = {
        "kind": types.EnumField(valid_values=[each.value for each in Kind]),
        "mode": types.StringField(nullable=True),
        "physical_network": types.StringField(),
        "vlan": types.IntegerField(),
        "out_kbps": types.IntegerField(nullable=True),
        "in_kbps": types.IntegerField(nullable=True),
        "numa_node": types.IntegerField(nullable=True),
        "network": types.UUIDField(nullable=True),
        "onload": types.BooleanField(),
    }

    def obj_make_compatible(self, primitive: Any, target_version: str) -> None:
        """Remove fields that readers of an older version do not know."""
        super().obj_make_compatible(primitive, target_version)
        if versionutils.convert_version_to_tuple(target_version) < (1, 1):
            primitive.pop("network", None)
            primitive.pop("onload", None)


class SriovRtPlugin(plugin.PluginBase):  # type: ignore[misc]
    """Plugs macvlan, macvtap and ipvlan interfaces and whole VFs.

    A port is a VIFGeneric: a device that the plugin makes, named ``vif_name``,
    in the host's namespace. The host chooses its parent from those of the
    physical network, so no other class of VIF fits: VIFDirect and
    VIFHostDevice come with a PCI address.
    """

    CONFIG_OPTS: ClassVar[list[cfg.Opt]] = list(privsep.OPTS)

    def describe(self) -> Any:
        """Return what the plugin supports, as a HostPluginInfo."""
        return host_info.HostPluginInfo(
            plugin_name=NAME,
            vif_info=[
                host_info.HostVIFInfo(
                    vif_object_name=vifs.VIFGeneric.__name__,
                    min_version="1.0",
                    max_version="1.0",
                    supported_port_profiles=[
                        host_info.HostPortProfileInfo(
                            profile_object_name=VIFPortProfileSriovRt.__name__,
                            min_version="1.0",
                            max_version="1.1",
                        )
                    ],
                )
            ],
        )

    def plug(self, vif: Any, instance_info: Any) -> None:
        """Plug a port; an existing one stays as it is.

        :param vif: a VIFGeneric with a VIFPortProfileSriovRt. If it has no
            ``address``, it gets the port's; the profile's ``onload`` becomes
            whether the port is accelerated.
        :raises PlugException: with a sentence that says what is wrong.
        """
        try:
            plugged = privsep.plug(_request(vif, instance_info))
        except exceptions.SriovRtError as error:
            raise exception.PlugException(str(error)) from error
        LOG.info(
            "%s instance=%s plugged as %s %s on %s%s",
            log.about(vif.id, plugged["vf"]),
            instance_info.uuid,
            plugged["kind"],
            plugged["interface"],
            plugged["parent"],
            ", accelerated" if plugged["accelerated"] else "",
        )
        vif.port_profile.onload = plugged["accelerated"]
        if _given(vif, "address") is None:
            vif.address = plugged["mac"]

    def unplug(self, vif: Any, instance_info: Any) -> None:
        """Unplug a port; it is no error if it is gone.

        :raises UnplugException: with a sentence that says what is wrong.
        """
        try:
            there = privsep.unplug(vif.id)
        except exceptions.SriovRtError as error:
            raise exception.UnplugException(str(error)) from error
        LOG.info(
            "%s instance=%s %s",
            log.about(vif.id),
            instance_info.uuid,
            "unplugged" if there else "was not plugged",
        )


def check(vif: Any, instance_info: Any) -> None:
    """Check that a port can be plugged or already is; make nothing.

    :param vif: as for :meth:`SriovRtPlugin.plug`.
    :raises HostRefused: if it cannot be plugged now.
    :raises ParseError: for a value that no port can have.
    """
    privsep.check(_request(vif, instance_info))


def _request(vif: Any, instance_info: Any) -> Plug:
    """Return the port that a VIF describes.

    :raises SriovRtError: if the VIF is not one of this plugin's.
    :raises ParseError: for a value that no port can have.
    """
    profile = _given(vif, "port_profile")
    if not (
        isinstance(vif, vifs.VIFGeneric)
        and isinstance(profile, VIFPortProfileSriovRt)
        and "kind" in profile
        and "physical_network" in profile
    ):
        raise exceptions.SriovRtError(
            f"{vif.obj_name()}: the os-vif plugin {NAME} takes a VIFGeneric "
            f"whose port_profile is a {VIFPortProfileSriovRt.__name__} with "
            "kind and physical_network; describe the port so"
        )
    kind = Kind(profile.kind)
    network = _given(vif, "network")
    return validation.checked(
        Plug(
            port=vif.id,
            owner=instance_info.uuid,
            kind=kind,
            mode=_given(profile, "mode"),
            physical_network=profile.physical_network,
            name=_given(vif, "vif_name"),
            # An ipvlan has its parent's MAC.
            mac=None if kind == Kind.IPVLAN else _given(vif, "address"),
            vlan=_given(profile, "vlan") or 0,
            mtu=None if network is None else _given(network, "mtu"),
            limits=Limits(
                _given(profile, "out_kbps"), _given(profile, "in_kbps")
            ),
            numa_node=_given(profile, "numa_node"),
            network=_given(profile, "network"),
            onload=_given(profile, "onload") or False,
        )
    )


def _given(thing: Any, field: str) -> Any:
    return getattr(thing, field) if field in thing else None
