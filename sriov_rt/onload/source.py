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


"""The fact source of Onload: what is on the host, as the operator allows it.

The configuration is read below the root, as nova-compute's is: what flavors
can have is what this host's hook would give them.
"""

import dataclasses

from sriov_rt.codec import Unknown
from sriov_rt.facts import OnloadFacts
from sriov_rt.host import onload
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload import workloads
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.settings import Settings


def observe(root: Root) -> OnloadFacts:
    """Return what of Onload is on the host, and what became of instances.

    Where ``[onload]`` allows profiles, those that can be used; else the names
    of those that are installed. The library is ``[onload] library``, if set.
    """
    return dataclasses.replace(
        _installed(root), workloads=workloads.observe(root)
    )


def _installed(root: Root) -> OnloadFacts:
    if root.exists(CONFIG) is False:
        return onload.observe(root)
    try:
        settings = onload_settings.load([str(root.path / CONFIG)])
    except OnloadError as error:
        why = Unknown(str(error))
        return dataclasses.replace(
            onload.observe(root), library=why, profiles=why, library_fits=why
        )
    found = onload.observe(root, settings.library)
    if not settings.profiles:
        return found
    return dataclasses.replace(found, profiles=_usable(settings, root))


def _usable(settings: Settings, root: Root) -> tuple[str, ...]:
    usable = []
    for name in sorted(settings.profiles):
        try:
            settings.profile(name, root)
        except OnloadError:
            # 'sriov-rt onload profile list' says why.
            continue
        usable.append(name)
    return tuple(usable)
