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

"""What of Onload is on the host."""

from sriov_rt.codec import Unknown
from sriov_rt.facts import OnloadFacts
from sriov_rt.host.root import Root

MODULES = ("onload", "sfc", "sfc_char", "sfc_resource")

#: Of these, sfc_affinity is in older releases only.
DEVICES = (
    "/dev/onload",
    "/dev/onload_epoll",
    "/dev/sfc_affinity",
    "/dev/sfc_char",
)

#: Where Onload's installer and the distributions put libraries.
LIBRARY_DIRECTORIES = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib",
)
LIBRARY = "libonload.so"

PROFILES = "usr/libexec/onload/profiles"
PROFILE_SUFFIX = ".opf"


def observe(root: Root) -> OnloadFacts:
    """Return Onload's modules, device nodes, library and profile names.

    Profiles are shell scripts: they are listed here, never read.
    """
    return OnloadFacts(
        modules=_present(root, MODULES, "sys/module/"),
        devices=_present(root, DEVICES, ""),
        library=_library(root),
        profiles=_profiles(root),
    )


def _present(
    root: Root, names: tuple[str, ...], prefix: str
) -> tuple[str, ...] | Unknown:
    present = []
    for name in names:
        found = root.exists(f"{prefix}{name}".lstrip("/"))
        if isinstance(found, Unknown):
            return found
        if found:
            present.append(name)
    return tuple(present)


def _library(root: Root) -> str | None | Unknown:
    for directory in LIBRARY_DIRECTORIES:
        found = root.exists(f"{directory}/{LIBRARY}")
        if isinstance(found, Unknown):
            return found
        if found:
            return f"/{directory}/{LIBRARY}"
    return None


def _profiles(root: Root) -> tuple[str, ...] | Unknown:
    names = root.list_dir(PROFILES)
    if isinstance(names, Unknown):
        return () if root.exists(PROFILES) is False else names
    return tuple(
        name.removesuffix(PROFILE_SUFFIX)
        for name in names
        if name.endswith(PROFILE_SUFFIX) and name != PROFILE_SUFFIX
    )
