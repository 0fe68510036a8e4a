# SPDX-License-Identifier: Apache-2.0

"""Devices that kubelet has assigned to pods of this node.

kubelet's PodResources API, ``v1.PodResourcesLister``
(k8s.io/kubelet/pkg/apis/podresources/v1/api.proto).
"""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.kubevirt import messages
from sriov_rt.kubevirt.messages import STRING
from sriov_rt.parse import errors
from sriov_rt.parse import pci

_LIST = "/v1.PodResourcesLister/List"

#: Bytes, enough for a node with 250 pods of 64 devices each.
_MAX_MESSAGE = 16 * 1024 * 1024
_TIMEOUT_S = 5.0


@functools.cache
def kinds() -> Mapping[str, Any]:
    """Return the messages by name."""
    return messages.build(
        "v1",
        {
            "ListPodResourcesRequest": (),
            "ContainerDevices": (
                ("resource_name", 1, STRING),
                ("[]device_ids", 2, STRING),
            ),
            "ContainerResources": (
                ("name", 1, STRING),
                ("[]devices", 2, "ContainerDevices"),
            ),
            "PodResources": (
                ("name", 1, STRING),
                ("namespace", 2, STRING),
                ("[]containers", 3, "ContainerResources"),
            ),
            "ListPodResourcesResponse": (
                ("[]pod_resources", 1, "PodResources"),
            ),
        },
    )


#: The suffix that generateName appends, and the most characters before it
#: (SimpleNameGenerator of k8s.io/apiserver).
_SUFFIX = r"[a-z0-9]{5}"
_MAX_BASE = 58


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """A pod and its PCI devices."""

    namespace: str
    name: str
    devices: frozenset[str]

    def is_launcher(self, namespace: str, vmi: str) -> bool:
        """Return whether it is a virt-launcher of a VMI.

        The API server makes its name from ``virt-launcher-VMI-``
        (renderLaunchManifest of KubeVirt), cut at the end if it is too long.
        """
        base = f"virt-launcher-{vmi}-"[:_MAX_BASE]
        return self.namespace == namespace and bool(
            re.fullmatch(re.escape(base) + _SUFFIX, self.name)
        )


def pods(socket: str) -> tuple[Pod, ...]:
    """Return the pods of this node that have PCI devices.

    :param socket: path of the socket of kubelet's API.
    :raises SriovRtError: if kubelet does not answer.
    """
    # Imported here because it is an extra of the package.
    import grpc

    options = (("grpc.max_receive_message_length", _MAX_MESSAGE),)
    with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
        call = channel.unary_unary(
            _LIST,
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=(
                kinds()["ListPodResourcesResponse"].FromString
            ),
        )
        try:
            found = call(
                kinds()["ListPodResourcesRequest"](), timeout=_TIMEOUT_S
            )
        except grpc.RpcError as error:
            raise exceptions.SriovRtError(
                f"kubelet does not answer on {socket} ({error.code().name}); "
                "mount its directory into the node hook's container"
            ) from None
    every = (
        Pod(each.namespace, each.name, _devices(each))
        for each in found.pod_resources
    )
    return tuple(each for each in every if each.devices)


def _devices(pod: Any) -> frozenset[str]:
    """Return the PCI devices of a pod, which plugins name by address."""
    found = set()
    for container in pod.containers:
        for devices in container.devices:
            for text in devices.device_ids:
                try:
                    found.add(str(pci.PciAddress.parse(text)))
                except errors.ParseError:
                    continue  # another kind of device, such as /dev/kvm
    return frozenset(found)
