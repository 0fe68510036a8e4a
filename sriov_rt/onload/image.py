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


"""The image of a container, as its domain names it."""

from sriov_rt.codec import Unknown
from sriov_rt.guest.domain import Domain
from sriov_rt.host.root import Root
from sriov_rt.onload import rootfs
from sriov_rt.reason import Reason

#: What libvirt starts in a container that names nothing else (the
#: documentation of its LXC driver).
INIT = "/sbin/init"


def why_not(
    domain: Domain, host: Root, library: str
) -> tuple[Reason, ...] | Unknown:
    """Return what keeps a library of the host from a container's programs.

    Nova mounts an image after it has made the domain's document, so that a
    hook can't tell: who has mounted it can ask again.

    :param domain: of a container.
    :param host: the host's file system.
    :param library: the path in it of what is to be preloaded.
    :returns: Unknown, with a clause, if the image is not there to be read.
    """
    directory = _directory(domain)
    if directory is None:
        return Unknown("it has no directory")
    names = host.list_dir(directory.lstrip("/"))
    if isinstance(names, Unknown) or not names:
        return Unknown(f"{directory} is empty yet")
    image = Root(f"{host.path}/{directory}")
    return rootfs.why_not(image, _init(domain), host, library)


def _init(domain: Domain) -> str:
    system = domain.part("os")
    found = "" if system is None else system.findtext("init") or ""
    return found.strip() or INIT


def _directory(domain: Domain) -> str | None:
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
