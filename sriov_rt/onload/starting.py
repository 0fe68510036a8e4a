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

"""Onload in a container that is about to start.

By now its image is there to be read, and its ports are plugged: the hook
that wrote its domain knew neither.
"""

from collections.abc import Callable

from sriov_rt.codec import Unknown
from sriov_rt.guest import engine
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.elements import Element
from sriov_rt.guest.elements import remove
from sriov_rt.guest.engine import Rendered
from sriov_rt.guest.hook import Context
from sriov_rt.guest.report import Recorder
from sriov_rt.host.root import Root
from sriov_rt.onload import image
from sriov_rt.onload import plan
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.hook import Onload
from sriov_rt.onload.plan import Injection
from sriov_rt.onload.sentences import reason
from sriov_rt.onload.settings import Settings
from sriov_rt.request.words import Request

#: What the domain's metadata has where the injection was taken out.
MARK = "onload"
UNACCELERATED = "unaccelerated"

_WHY = "a port shares its NIC with an accelerated instance of its network"


class Starting(Onload):
    """Checks the image, or takes out again what was injected.

    :param accelerated: whether the container's ports may be.
    :param load: gives the operator's settings, when they are first needed.
    :param host: the host's file system.
    """

    def __init__(
        self,
        accelerated: bool,
        load: Callable[[], Settings] = onload_settings.load,
        host: Root | None = None,
    ) -> None:
        super().__init__(load, host)
        self._accelerated = accelerated

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Leave the injection where programs of the image would take it."""
        if not context.request.onload or not domain.is_container:
            return
        injection = self._plan(context.request.onload_profile, report)
        if injection is None:
            return
        if not self._accelerated:
            _withdraw(domain, injection, report)
            report.mark(MARK, UNACCELERATED)
            return
        found = image.why_not(domain, self._host, injection.library)
        if isinstance(found, Unknown):
            problem = found.reason
            found = (reason("onload_image_unreadable", problem=problem),)
        for each in found:
            report.refuse(each)


def started(
    xml: str,
    request: Request,
    *,
    accelerated: bool,
    load: Callable[[], Settings] = onload_settings.load,
    host: Root | None = None,
) -> Rendered:
    """Return the domain of a container as it is to start.

    :param xml: as the guest hooks made it.
    :param accelerated: whether its ports may be: if not, it runs over the
        kernel, and its metadata says so.
    :raises Refused: if Onload would not get into its programs.
    :raises DomainRejected: if it is no domain.
    """
    return engine.render(
        xml, request, hooks={"onload": Starting(accelerated, load, host)}
    )


def _withdraw(domain: Domain, injection: Injection, report: Recorder) -> None:
    system = domain.part("os")
    if system is not None:
        _take(
            system,
            [
                each
                for each in system.findall("initenv")
                if plan.is_onloads(each.get("name", ""))
            ],
            report,
        )
    devices = domain.part("devices")
    if devices is not None:
        gone = [e for e in domain.devices() if _is_injected(e, injection)]
        _take(devices, gone, report)


def _take(parent: Element, gone: list[Element], report: Recorder) -> None:
    if gone:
        report.removed(gone, _WHY)
        remove(parent, gone)


def _is_injected(device: Element, injection: Injection) -> bool:
    if device.tag == "filesystem":
        target = device.find("target")
        inside = {each.target for each in injection.mounts}
        return target is not None and target.get("dir") in inside
    return (
        device.tag == "hostdev"
        and (device.findtext("source/char") or "") in injection.devices
    )
