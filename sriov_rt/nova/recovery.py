# SPDX-License-Identifier: Apache-2.0

"""Recovery of ports left by an earlier nova-compute."""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from nova import context
from nova import exception
from nova import objects
from nova.compute import vm_states
from oslo_log import log as logging

from sriov_rt import exceptions
from sriov_rt.nova import ports
from sriov_rt.vif import privsep

LOG = logging.getLogger(__name__)


def run(host: str, vif_driver: Any, guests: Any) -> None:
    """Finish or undo interrupted plugs and unplugs on this host, and log it.

    On a host without our configuration it does nothing and requests no
    privileges. If it fails, nova-compute starts all the same: guests without
    ports of ours don't need it, and each plug of a port reports what is wrong.

    :param host: Nova's name of this host.
    :param guests: Nova's libvirt.host.Host.
    :raises HostRefused: for an option of sriov-rt.conf with a bad value.
    """
    if not privsep.is_configured():
        return
    try:
        for each in _lines(privsep.recover()):
            LOG.warning("%s", each)
    except exceptions.SriovRtError as error:
        if isinstance(error, privsep.HostRefused) and error.is_configuration:
            raise
        LOG.error(
            "ports of sriov-rt were not recovered (%s); repair that, then "
            "start nova-compute again",
            error,
        )
        return
    except Exception:
        LOG.exception("ports of sriov-rt were not recovered")
        return
    for instance in _unborn(host, guests):
        _unplug(instance, vif_driver)


def _unborn(host: str, guests: Any) -> Iterator[Any]:
    """Yield the instances that never got a domain on this host.

    The plugging daemon outlives a nova-compute that is killed, and finishes
    its call: the port is then complete, but belongs to no guest. Nova only
    marks the instance as failed.
    """
    found = objects.InstanceList.get_by_host(
        context.get_admin_context(), host, expected_attrs=["info_cache"]
    )
    for each in found:
        if each.vm_state in (vm_states.BUILDING, vm_states.ERROR):
            try:
                guests.get_guest(each)
            except exception.InstanceNotFound:
                yield each


def _unplug(instance: Any, vif_driver: Any) -> None:
    for vif in instance.get_network_info():
        if not ports.is_ours(vif):
            continue
        try:
            vif_driver.unplug(instance, vif)
        except exception.VirtualInterfaceUnplugException as error:
            LOG.error("%s", error, instance=instance)


def _lines(recovered: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each port.

    :param recovered: the fields of a Recovered.
    """
    for port in recovered["undone"]:
        yield f"port={port} was half plugged, and is undone"
    for port in recovered["finished"]:
        yield f"port={port} was half unplugged, and is gone"
    for port in recovered["busy"]:
        yield f"port={port} is left to the process that works on it"
    for port, why in recovered["failed"]:
        yield f"port={port} is left behind: {why}"
    for name in recovered["cleaned"]:
        yield f"reset idle VF {name} to the baseline"
    for name in recovered.get("damaged", ()):
        yield f"{name} was the record of a port, which is quarantined"
