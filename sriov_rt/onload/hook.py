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


"""The guest hook that puts Onload into containers."""

from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.elements import Element
from sriov_rt.guest.elements import append
from sriov_rt.guest.elements import remove
from sriov_rt.guest.hook import Context
from sriov_rt.guest.report import Recorder
from sriov_rt.host.root import Root
from sriov_rt.onload import image
from sriov_rt.onload import plan
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.errors import NotConfigured
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.plan import Injection
from sriov_rt.onload.sentences import reason
from sriov_rt.onload.settings import Settings

_WHY = "sriov_rt:onload=required"


class Onload:
    """Gives containers the preload, the profile, the library and devices.

    It reads the profile and, if it is there, the image: what would not be
    preloaded is refused. Nothing in the domain but its image is looked at,
    and what it sets of Onload's variables goes.

    :param load: gives the operator's settings, when they are first needed.
    :param host: the host's file system.
    """

    def __init__(
        self,
        load: Callable[[], Settings] = onload_settings.load,
        host: Root | None = None,
    ) -> None:
        self._load = load
        self._host = Root() if host is None else host
        self._settings: Settings | None = None

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Inject Onload where the Request asks for it."""
        if not context.request.onload:
            return
        if not domain.is_container:
            report.note(
                "Onload was not injected: nothing can be preloaded into a "
                "virtual machine from outside; its image has to have Onload, "
                "and the vendordata service tells cloud-init the profile"
            )
            return
        injection = self._plan(context.request.onload_profile, report)
        if injection is None:
            return
        self._check_devices(injection, report)
        found = image.why_not(domain, self._host, injection.library)
        if isinstance(found, Unknown):
            report.note(f"the image was not checked: {found.reason}")
        else:
            for each in found:
                report.refuse(each)
        if report.refusals:
            return
        _environment(domain, injection.environment, report)
        _mounts(domain, injection, report)
        _devices(domain, injection, report)

    def _plan(self, profile: str | None, report: Recorder) -> Injection | None:
        try:
            if self._settings is None:
                self._settings = self._load()
            found = self._settings.profile(profile, self._host)
            return plan.container(self._settings, found)
        except NotConfigured as error:
            report.refuse(reason("onload_unconfigured", option=error.option))
        except OnloadError as error:
            report.refuse(reason("onload_refused", problem=str(error)))
        return None

    def _check_devices(self, injection: Injection, report: Recorder) -> None:
        for each in injection.devices:
            if self._host.exists(each.lstrip("/")) is not True:
                report.refuse(reason("onload_device_missing", device=each))


def _environment(
    domain: Domain, wanted: Mapping[str, str], report: Recorder
) -> None:
    system = domain.ensure("os")
    left = dict(wanted)
    gone: list[Element] = []
    for each in system.findall("initenv"):
        name = each.get("name", "")
        if not plan.is_onloads(name):
            continue
        if left.get(name) == each.text:
            del left[name]
        else:
            gone.append(each)
    if gone:
        report.removed(gone, "Onload's variables are the operator's to set")
        remove(system, gone)
    for name, value in left.items():
        append(system, "initenv", {"name": name}).text = value
        report.changed("added", "initenv", {name: value}, _WHY)


def _mounts(domain: Domain, injection: Injection, report: Recorder) -> None:
    for mount in injection.mounts:
        there = _mounted(domain, mount.target)
        if there is not None:
            source = there.find("source")
            found = "" if source is None else source.get("dir", "")
            if found != mount.source or there.find("readonly") is None:
                report.refuse(
                    reason(
                        "onload_mount_taken",
                        source=found[:80],
                        target=mount.target,
                    )
                )
            continue
        added = append(
            domain.ensure("devices"), "filesystem", {"type": "mount"}
        )
        append(added, "source", {"dir": mount.source})
        append(added, "target", {"dir": mount.target})
        append(added, "readonly", {})
        told = {"source": mount.source, "target": mount.target}
        report.changed("added", "filesystem", told, _WHY)


def _mounted(domain: Domain, target: str) -> Element | None:
    for each in domain.devices():
        place = each.find("target")
        if (
            each.tag == "filesystem"
            and place is not None
            and place.get("dir") == target
        ):
            return each
    return None


def _devices(domain: Domain, injection: Injection, report: Recorder) -> None:
    there = {
        (each.findtext("source/char") or "").strip()
        for each in domain.devices()
        if each.tag == "hostdev" and each.get("mode") == "capabilities"
    }
    for device in injection.devices:
        if device in there:
            continue
        kind = {"mode": "capabilities", "type": "misc"}
        added = append(domain.ensure("devices"), "hostdev", kind)
        source = append(added, "source", {})
        append(source, "char", {}).text = device
        report.changed("added", "hostdev", {"char": device}, _WHY)
