# SPDX-License-Identifier: Apache-2.0

"""Guest hook that puts Onload into containers, and its check at their start.

The hook writes the domain before Nova has mounted the image and plugged the
ports. A second check, just before the container starts, uses these facts.
"""

from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.engine import Rendered
from sriov_rt.guest.hook import Context
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import append
from sriov_rt.guest.xml import remove
from sriov_rt.guest.xml import text_of
from sriov_rt.host.root import Root
from sriov_rt.onload import plan
from sriov_rt.onload import rootfs
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.errors import NotConfigured
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.plan import Injection
from sriov_rt.onload.sentences import reason
from sriov_rt.onload.settings import Settings
from sriov_rt.reason import Reason
from sriov_rt.request.words import Request

_WHY = "sriov_rt:onload=required"


class Onload:
    """Gives containers the preload, the profile, the library and devices.

    It reads the profile and, if present, the image, and refuses a library that
    cannot be preloaded. Of the domain it reads only the image; Onload's
    variables that the domain sets are removed.

    :param load: returns the operator's settings, called when first needed.
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
        """Inject Onload if the Request asks for it."""
        if not context.request.onload:
            return
        if not domain.is_container:
            report.note(
                "Onload was not injected: nothing can be preloaded into a "
                "virtual machine from outside; its image has to have Onload, "
                "and the vendordata service gives cloud-init the profile"
            )
            return
        injection = self._plan(context.request.onload_profile, report)
        if injection is None:
            return
        self._check_devices(injection, report)
        found = _image_reasons(domain, self._host, injection.library)
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
    domain: Domain, variables: Mapping[str, str], report: Recorder
) -> None:
    system = domain.ensure("os")
    left = dict(variables)
    gone: list[Element] = []
    for each in system.findall("initenv"):
        name = each.get("name", "")
        if not plan.is_onloads(name):
            continue
        if left.get(name) == text_of(each):
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
        fields = {"source": mount.source, "target": mount.target}
        report.changed("added", "filesystem", fields, _WHY)


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
        text_of(each.find("source/char")).strip()
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


#: Program that libvirt starts in a container by default (the documentation
#: of its LXC driver).
INIT = "/sbin/init"


def _image_reasons(
    domain: Domain, host: Root, library: str
) -> tuple[Reason, ...] | Unknown:
    """Return the Reasons why a library of the host cannot be preloaded.

    Nova mounts an image after it has made the domain's document, so a hook
    cannot know this yet. The check is repeated once the image is mounted.

    :param library: path of the library on the host.
    :returns: Unknown, with a clause, if the image is not mounted.
    """
    directory = _image_directory(domain)
    if directory is None:
        return Unknown("it has no directory")
    names = host.list_dir(directory.lstrip("/"))
    if isinstance(names, Unknown) or not names:
        return Unknown(f"{directory} is empty yet")
    image = Root(f"{host.path}/{directory}")
    return rootfs.why_not(image, _image_init(domain), host, library)


def _image_init(domain: Domain) -> str:
    system = domain.part("os")
    found = "" if system is None else text_of(system.find("init"))
    return found.strip() or INIT


def _image_directory(domain: Domain) -> str | None:
    """Return the directory on the host that is ``/`` of a container."""
    for each in domain.devices():
        if each.tag != "filesystem":
            continue
        source, target = each.find("source"), each.find("target")
        if source is None or target is None or target.get("dir") != "/":
            continue
        path = source.get("dir")
        if path and path.startswith("/"):
            return path
    return None


#: Value of the mark in the domain's metadata if the injection was undone.
UNACCELERATED = "unaccelerated"

_WHY_WITHDRAWN = (
    "a port shares its NIC with an accelerated instance of its network"
)


class Starting(Onload):
    """Checks the image, or undoes the injection.

    :param accelerated: whether the container's ports may be accelerated.
    :param load: returns the operator's settings, called when first needed.
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
        """Keep the injection if the image's programs can preload Onload."""
        if not context.request.onload or not domain.is_container:
            return
        injection = self._plan(context.request.onload_profile, report)
        if injection is None:
            return
        if not self._accelerated:
            _withdraw(domain, injection, report)
            report.mark(metadata.ONLOAD_MARK, UNACCELERATED)
            return
        found = _image_reasons(domain, self._host, injection.library)
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
    """Return the final domain of a container, just before its start.

    :param xml: domain from the guest hooks.
    :param accelerated: whether its ports may be accelerated: if not, it uses
        the kernel's stack, and its metadata says so.
    :raises Refused: if its programs cannot preload Onload.
    :raises DomainRejected: if it is not a domain.
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
        report.removed(gone, _WHY_WITHDRAWN)
        remove(parent, gone)


def _is_injected(device: Element, injection: Injection) -> bool:
    if device.tag == "filesystem":
        target = device.find("target")
        inside = {each.target for each in injection.mounts}
        return target is not None and target.get("dir") in inside
    return (
        device.tag == "hostdev"
        and text_of(device.find("source/char")) in injection.devices
    )
