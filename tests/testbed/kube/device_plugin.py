# SPDX-License-Identifier: Apache-2.0

"""Stand-ins for two device plugins, on the node of the tests.

The published ones are images, and their Go modules are not to be had. These
speak the kubelet's device plugin API (k8s.io/kubelet/pkg/apis/deviceplugin/
v1beta1, api.proto): they register each resource, list its devices, and at
Allocate return what the published ones do. No device is looked at.
"""

import abc
import concurrent.futures
import functools
import json
import pathlib
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import grpc

from sriov_rt.kubevirt import messages
from sriov_rt.kubevirt.messages import STRING

_PACKAGE = "v1beta1"
_BOOL, _INT64 = 8, 3

DIRECTORY = pathlib.Path("/var/lib/kubelet/device-plugins")

_SECONDS = 10.0


@functools.cache
def _kinds() -> Mapping[str, Any]:
    return messages.build(
        _PACKAGE,
        {
            "Empty": (),
            "DevicePluginOptions": (("pre_start_required", 1, _BOOL),),
            "RegisterRequest": (
                ("version", 1, STRING),
                ("endpoint", 2, STRING),
                ("resource_name", 3, STRING),
            ),
            "NUMANode": (("ID", 1, _INT64),),
            "TopologyInfo": (("[]nodes", 1, "NUMANode"),),
            "Device": (
                ("ID", 1, STRING),
                ("health", 2, STRING),
                ("topology", 3, "TopologyInfo"),
            ),
            "ListAndWatchResponse": (("[]devices", 1, "Device"),),
            "ContainerAllocateRequest": (("[]devices_ids", 1, STRING),),
            "AllocateRequest": (
                ("[]container_requests", 1, "ContainerAllocateRequest"),
            ),
            "Entry": (("key", 1, STRING), ("value", 2, STRING)),
            "Mount": (
                ("container_path", 1, STRING),
                ("host_path", 2, STRING),
                ("read_only", 3, _BOOL),
            ),
            "DeviceSpec": (
                ("container_path", 1, STRING),
                ("host_path", 2, STRING),
                ("permissions", 3, STRING),
            ),
            "ContainerAllocateResponse": (
                ("[]envs", 1, "Entry"),
                ("[]mounts", 2, "Mount"),
                ("[]devices", 3, "DeviceSpec"),
            ),
            "AllocateResponse": (
                ("[]container_responses", 1, "ContainerAllocateResponse"),
            ),
        },
    )


class DevicePlugin(abc.ABC):
    """A plugin of one node.

    :param resources: each with the names of its devices.
    """

    def __init__(self, resources: Mapping[str, Sequence[str]]) -> None:
        self._resources = resources
        self._servers: list[grpc.Server] = []
        self._ended = threading.Event()

    @abc.abstractmethod
    def response(self, devices: Sequence[str], resource: str) -> Any:
        """Return a ContainerAllocateResponse.

        :param devices: their names.
        """

    def start(self) -> None:
        """Serve each resource, and register it with the kubelet.

        :raises grpc.RpcError: if the kubelet does not take it.
        """
        for resource, devices in self._resources.items():
            endpoint = f"{resource.replace('/', '_')}.sock"
            pool = concurrent.futures.ThreadPoolExecutor(4)
            server = grpc.server(pool)
            server.add_generic_rpc_handlers(
                (self._handler(devices, resource),)
            )
            server.add_insecure_port(f"unix:{DIRECTORY / endpoint}")
            server.start()
            self._servers.append(server)
            _register(resource, endpoint)

    def stop(self) -> None:
        """End the servers; the kubelet then takes the devices as unhealthy."""
        self._ended.set()
        for each in self._servers:
            each.stop(0).wait(_SECONDS)

    def _handler(self, devices: Sequence[str], resource: str) -> Any:
        kinds = _kinds()

        def watch(request: Any, context: Any) -> Iterator[Any]:
            yield kinds["ListAndWatchResponse"](
                devices=[
                    {
                        "ID": each,
                        "health": "Healthy",
                        "topology": {"nodes": [{"ID": 0}]},
                    }
                    for each in devices
                ]
            )
            self._ended.wait()

        def allocate(request: Any, context: Any) -> Any:
            return kinds["AllocateResponse"](
                container_responses=[
                    self.response(list(each.devices_ids), resource)
                    for each in request.container_requests
                ]
            )

        def options(request: Any, context: Any) -> Any:
            return kinds["DevicePluginOptions"]()

        def unary(function: Any, request: str) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                function,
                request_deserializer=kinds[request].FromString,
                response_serializer=lambda each: each.SerializeToString(),
            )

        return grpc.method_handlers_generic_handler(
            f"{_PACKAGE}.DevicePlugin",
            {
                "GetDevicePluginOptions": unary(options, "Empty"),
                "Allocate": unary(allocate, "AllocateRequest"),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    watch,
                    request_deserializer=kinds["Empty"].FromString,
                    response_serializer=lambda each: each.SerializeToString(),
                ),
            },
        )


class VfPlugin(DevicePlugin):
    """The plugin of the SR-IOV network working group.

    It reads the configuration that a node's own script has written, and
    returns of a VF on vfio-pci its group and the variable with its address.

    :param configuration: the file.
    :param groups: PCI address of each VF to its IOMMU group.
    :param nodes: the directory that stands for the machine's /dev/vfio.
    """

    def __init__(
        self,
        configuration: pathlib.Path,
        groups: Mapping[str, int],
        nodes: pathlib.Path,
    ) -> None:
        plain = json.loads(configuration.read_text())
        super().__init__(
            {
                f"{each['resourcePrefix']}/{each['resourceName']}": [
                    address
                    for one in each["selectors"]
                    for address in one["pciAddresses"]
                ]
                for each in plain["resourceList"]
            }
        )
        self._groups = groups
        self._nodes = nodes

    def response(self, devices: Sequence[str], resource: str) -> Any:
        """Return the groups of VFs."""
        name = resource.replace("/", "_").replace(".", "_").upper()
        names = ["vfio", *(str(self._groups[each]) for each in devices)]
        return {
            "envs": [
                {
                    "key": f"PCIDEVICE_{name}",
                    "value": ",".join(devices),
                }
            ],
            "devices": [
                {
                    "container_path": f"/dev/vfio/{each}",
                    "host_path": str(self._nodes / each),
                    "permissions": "mrw",
                }
                for each in names
            ],
        }


class OnloadPlugin(DevicePlugin):
    """AMD's plugin, as the add-on starts it: without LD_PRELOAD.

    :param nodes: the directory that stands for the machine's /dev.
    :param libraries: the directory of the node with libonload.so.
    :param inside: where pods have it.
    :param count: how many pods may have it, ``maxPodsPerNode``.
    """

    #: README of the operator, "Resource amd.com/onload".
    DEVICES = ("onload", "onload_epoll", "sfc_char")

    def __init__(
        self,
        nodes: pathlib.Path,
        libraries: pathlib.Path,
        inside: str,
        count: int = 100,
    ) -> None:
        names = [f"onload-{number}" for number in range(count)]
        super().__init__({"amd.com/onload": names})
        self._nodes = nodes
        self._libraries = libraries
        self._inside = inside

    def response(self, devices: Sequence[str], resource: str) -> Any:
        """Return Onload's devices and libraries."""
        return {
            "mounts": [
                {
                    "container_path": f"{self._inside}/{each.name}",
                    "host_path": str(each),
                    "read_only": True,
                }
                for each in self._libraries.iterdir()
            ],
            "devices": [
                {
                    "container_path": f"/dev/{each}",
                    "host_path": str(self._nodes / each),
                    "permissions": "mrw",
                }
                for each in self.DEVICES
            ],
        }


def _register(resource: str, endpoint: str) -> None:
    kinds = _kinds()
    with grpc.insecure_channel(
        f"unix:{DIRECTORY / 'kubelet.sock'}"
    ) as channel:
        call = channel.unary_unary(
            f"/{_PACKAGE}.Registration/Register",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=kinds["Empty"].FromString,
        )
        call(
            kinds["RegisterRequest"](
                version=_PACKAGE, endpoint=endpoint, resource_name=resource
            ),
            timeout=_SECONDS,
            wait_for_ready=True,
        )
