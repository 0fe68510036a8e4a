# SPDX-License-Identifier: Apache-2.0

"""Onload in Nova's containers at their start."""

from typing import Any

from oslo_log import log as logging

from sriov_rt import deadline
from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.nova.refusals import refused
from sriov_rt.onload import hook

LOG = logging.getLogger(__name__)

#: Metadata key of an instance that is not accelerated although its flavor
#: requests it. The owner sees it in ``openstack server show`` and nowhere
#: else: system metadata is for Nova alone. It is only a notice: we never read
#: it, and changing it has no effect.
NOTICE = "sriov_rt_onload"

#: Seconds for inspecting an image's programs; its device may not answer.
_LIMIT_S = 60.0


def is_requested(instance: Any) -> bool:
    """Return whether an instance's flavor requests Onload."""
    specs = instance.flavor.extra_specs or {}
    return requests.asks(specs) and requests.parse(specs).onload


def started(xml: str, instance: Any, accelerated: bool) -> str:
    """Return the domain to start a container with.

    :param xml: its domain; its image is mounted, its ports are plugged.
    :param accelerated: whether its ports may be accelerated.
    :raises GuestRefused: if Onload can't be loaded into its programs.
    """
    request = requests.parse(instance.flavor.extra_specs)
    try:
        rendered = deadline.Call(
            "the look into the container's image",
            lambda: hook.started(xml, request, accelerated=accelerated),
        ).result(_LIMIT_S)
    except exceptions.SriovRtError as error:
        raise refused(instance, error) from error
    if not accelerated:
        LOG.warning(
            "Onload was removed from the container: %s",
            rendered.report.summary(),
            instance=instance,
        )
    return rendered.xml


def notice(instance: Any, accelerated: bool) -> None:
    """Note in the instance's metadata that it is not accelerated."""
    found = dict(instance.metadata)
    if accelerated == (NOTICE not in found):
        return
    if accelerated:
        del found[NOTICE]
    else:
        found[NOTICE] = hook.UNACCELERATED
    instance.metadata = found
    instance.save()
