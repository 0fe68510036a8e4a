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

"""What Nova on the host was told: ``[compute]`` of its configuration."""

from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import CpuSet
from sriov_rt.host import novaconf
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors


def observe(root: Root, files: Sequence[str] = novaconf.FILES) -> ComputeFacts:
    """Return the CPUs that Nova was given.

    :param files: its configuration files, relative to the root.
    """
    settings = novaconf.read(root, files)
    return ComputeFacts(
        dedicated=_cpus(settings, "cpu_dedicated_set"),
        shared=_cpus(settings, "cpu_shared_set"),
    )


def _cpus(
    settings: novaconf.Settings | None | Unknown, option: str
) -> CpuSet | None | Unknown:
    if settings is None or isinstance(settings, Unknown):
        return settings
    text = settings.get(("compute", option), "").strip()
    if not text:
        return None
    try:
        return cpulist.parse_cpu_list(text, exclusions=True)
    except errors.ParseError as error:
        return Unknown(f"[compute] {option} of nova.conf: {error}")
