# SPDX-License-Identifier: Apache-2.0

"""The vendordata service, for a WSGI server.

``application`` is its factory, for uwsgi's ``callable`` or gunicorn's
``sriov_rt.cmd.vendordata:application()``.
"""

import logging
import os
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt import exceptions
from sriov_rt.host.root import Root
from sriov_rt.nova.vendordata import Application
from sriov_rt.onload import settings as onload_settings

LOG = logging.getLogger(__name__)

#: Microversion of Nova's API: servers have their flavor's extra specs.
MICROVERSION = "2.47"


class ServiceIncomplete(exceptions.SriovRtError):
    """A package that the service needs is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the vendordata service needs keystonemiddleware and "
            "openstacksdk; install sriov-rt[vendordata]"
        )


class FlavorUnknown(exceptions.SriovRtError):
    """Nova does not return the flavor of an instance.

    :param problem: what went wrong, a clause.
    """

    def __init__(self, instance: str, problem: str) -> None:
        self.instance = instance
        self.problem = problem
        super().__init__(
            f"instance={instance}: Nova does not return its flavor "
            f"({problem}); give the service's user the role admin, and check "
            "that 'openstack server show' works for it"
        )


class NovaFlavors:
    """Requests the extra specs of an instance's flavor from Nova.

    :param compute: openstacksdk's compute proxy.
    """

    def __init__(self, compute: Any) -> None:
        self._compute = compute

    def __call__(self, instance: str) -> Mapping[str, str] | None:
        """Return the extra specs; None if there is no such instance.

        :param instance: a UUID.
        :raises FlavorUnknown: if Nova does not answer or return the flavor.
        """
        from keystoneauth1 import exceptions as keystone

        try:
            answer = self._compute.get(
                f"/servers/{instance}", microversion=MICROVERSION
            )
        except keystone.ClientException as error:
            raise FlavorUnknown(instance, str(error)) from error
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise FlavorUnknown(instance, f"HTTP {answer.status_code}")
        try:
            found: Any = answer.json()
        except ValueError:
            raise FlavorUnknown(instance, "its answer is not JSON") from None
        for key in ("server", "flavor", "extra_specs"):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict) or not all(
            isinstance(each, str) for each in found.values()
        ):
            raise FlavorUnknown(instance, "no extra specs in its flavor")
        specs: Mapping[str, str] = found
        return specs


def application(
    files: Sequence[str] | None = None,
    flavors: Callable[[str], Mapping[str, str] | None] | None = None,
) -> Any:
    """Return the service behind Keystone's middleware.

    :param files: files to read instead of sriov-rt.conf, with ``[onload]``
        and ``[keystone_authtoken]``.
    :param flavors: source of extra specs instead of Nova, which openstacksdk
        finds by ``OS_CLOUD``.
    :raises ServiceIncomplete: if a package is missing.
    :raises OnloadError: for an unusable configuration.
    """
    try:
        from keystonemiddleware import auth_token
    except ImportError as error:
        raise ServiceIncomplete from error
    conf = onload_settings.configuration(files)
    settings = onload_settings.of(conf)
    service = Application(settings, Root(), flavors or _nova())
    return auth_token.AuthProtocol(service, {"oslo_config_config": conf})


def _nova() -> NovaFlavors:
    try:
        import openstack
    except ImportError as error:
        raise ServiceIncomplete from error
    return NovaFlavors(
        openstack.connect(cloud=os.environ.get("OS_CLOUD")).compute
    )
