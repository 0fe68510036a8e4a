# SPDX-License-Identifier: Apache-2.0

"""Lines for lxc.conf(5) that put Onload into a container. Pure."""

import dataclasses
import re
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.plan import Injection

#: Names of containers, which are always one part of a path.
_NAME = re.compile(r"[A-Za-z0-9](?:\.?[A-Za-z0-9_-]){0,63}", re.ASCII)

#: Command that lxc-start runs before the container. It refuses an image that
#: cannot preload the library.
HOOK = "sriov-rt onload lxc-hook"


class ContainerNameRejected(OnloadError):
    """A name is not valid for a container.

    :param name: the name that was given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name[:80]!r} is not the name of a container; give one that "
            "'lxc-ls' shows"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A character device and its numbers."""

    path: str
    major: int
    minor: int


def check_name(name: str) -> str:
    """Return a container's name.

    :raises ContainerNameRejected: if it is invalid.
    """
    if not _NAME.fullmatch(name):
        raise ContainerNameRejected(name)
    return name


def lines(
    injection: Injection, nodes: Sequence[Node], cgroup: int
) -> Iterator[str]:
    """Yield the lines.

    :param nodes: the injection's devices that exist.
    :param cgroup: 2 if the host has only cgroup v2, else 1.
    """
    profile = "without a profile"
    if injection.profile is not None:
        name, sha256 = injection.profile
        profile = f"profile {name}, sha256 {sha256}"
    yield f"# Onload, {profile}"
    for name, value in injection.environment.items():
        yield f"lxc.environment = {name}={value}"
    for mount in injection.mounts:
        inside = mount.target.lstrip("/")
        yield (
            f"lxc.mount.entry = {mount.source} {inside} none "
            "bind,ro,create=dir 0 0"
        )
    controller = "cgroup2" if cgroup == 2 else "cgroup"
    for node in nodes:
        yield (
            f"lxc.{controller}.devices.allow = c {node.major}:{node.minor} rw"
        )
        yield (
            f"lxc.mount.entry = {node.path} {node.path.lstrip('/')} none "
            "bind,create=file 0 0"
        )
    yield f"lxc.hook.pre-start = {HOOK}"
