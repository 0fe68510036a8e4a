# SPDX-License-Identifier: Apache-2.0

"""Onload in the containers of Nova, when they start."""

from typing import Any

from oslo_log import log as logging

from sriov_rt import deadline
from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.nova.refusals import refused
from sriov_rt.onload import hook

LOG = logging.getLogger(__name__)

#: In the metadata of an instance that is not accelerated although its flavor
#: asks for it. Its owner sees that there, as in ``openstack server show``,
#: and nowhere else: system metadata is for Nova alone. It is a notice: who
#: changes it changes nothing, and nothing of ours reads it.
NOTICE = "sriov_rt_onload"

#: Seconds to look at programs in an image, whose device may not answer.
_LIMIT_S = 60.0


def is_requested(instance: Any) -> bool:
    """Return whether an instance's flavor asks for Onload."""
    specs = instance.flavor.extra_specs or {}
    return requests.asks(specs) and requests.parse(specs).onload


def started(xml: str, instance: Any, accelerated: bool) -> str:
    """Return a container's domain as it is to start.

    :param xml: its domain; its image is mounted, its ports are plugged.
    :param accelerated: whether its ports may be.
    :raises GuestRefused: if Onload would not get into its programs.
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
            "Onload was taken out again: %s",
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
