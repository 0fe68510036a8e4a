# SPDX-License-Identifier: Apache-2.0

"""Plan of an injection into a workload. Pure."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any

from sriov_rt.onload.profiles import Profile
from sriov_rt.onload.settings import Settings

PRELOAD = "LD_PRELOAD"

#: Prefix of Onload's variables.
PREFIX = "EF_"


@dataclasses.dataclass(frozen=True, slots=True)
class Mount:
    """A directory of the host that a workload sees, read-only."""

    source: str
    target: str


@dataclasses.dataclass(frozen=True, slots=True)
class Injection:
    """Files, devices and variables that start a workload with Onload.

    :param library: path on the host of the library to preload.
    :param environment: name to value: LD_PRELOAD and the profile's.
    :param mounts: directories to mount for it.
    :param devices: paths of the device nodes.
    :param profile: name and sha256 of the profile, None without one.
    """

    library: str
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    devices: tuple[str, ...]
    profile: tuple[str, str] | None

    def to_plain(self) -> dict[str, Any]:
        """Return the injection as a JSON object."""
        return {
            "library": self.library,
            "environment": dict(self.environment),
            "mounts": [dataclasses.asdict(each) for each in self.mounts],
            "devices": list(self.devices),
            "profile": None
            if self.profile is None
            else {"name": self.profile[0], "sha256": self.profile[1]},
        }


def container(settings: Settings, profile: Profile | None) -> Injection:
    """Return the plan for a container on this host.

    :param profile: None for Onload's own defaults.
    :raises NotConfigured: if the operator names no library.
    """
    library = settings.needed_library()
    directory, _, name = library.rpartition("/")
    return Injection(
        library=library,
        environment=environment(f"{settings.inside}/{name}", profile),
        mounts=(Mount(directory, settings.inside),),
        devices=settings.devices,
        profile=None if profile is None else (profile.name, profile.sha256),
    )


def is_onloads(name: str) -> bool:
    """Return whether only the operator may set a variable."""
    return name == PRELOAD or name.startswith(PREFIX)


def environment(library: str, profile: Profile | None) -> Mapping[str, str]:
    """Return the variables that preload a library with a profile.

    :param library: path or name of the library as the workload sees it.
    """
    given = {} if profile is None else profile.variables
    return types.MappingProxyType({PRELOAD: library, **given})
