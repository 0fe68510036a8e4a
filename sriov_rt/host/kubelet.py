# SPDX-License-Identifier: Apache-2.0

"""CPUs that the kubelet of this host hands out to pods."""

import posixpath

from sriov_rt.codec import Unknown
from sriov_rt.facts.guests import KubeletCpus
from sriov_rt.facts.guests import PodCpus
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import kubelet

#: Default of the kubelet's --root-dir.
DIRECTORY = "/var/lib/kubelet"

_STATE = "cpu_manager_state"

_NONE = KubeletCpus((), None)


def observe(root: Root, directory: str = DIRECTORY) -> KubeletCpus | Unknown:
    """Return the CPUs of pods; none if no kubelet has run.

    :param directory: the kubelet's directory, an absolute path of the host.
    """
    path = posixpath.join(directory, _STATE).lstrip("/")
    if root.exists(path) is False:
        return _NONE
    found = values.parsed(
        root, path, kubelet.parse_cpu_manager_state, kubelet.MAX_TEXT
    )
    if isinstance(found, Unknown):
        return found
    pods, shared = found
    return KubeletCpus(tuple(PodCpus(*each) for each in pods), shared)
