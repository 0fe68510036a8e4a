# SPDX-License-Identifier: Apache-2.0

"""Runs inside: the node hook's server, and who calls it.

A stand-in answers for kubelet: it names one VF as that of the VMI's pod, in
the messages of its PodResources API. Everything else is the real thing: the
hook, its server, gRPC, the kernel's VFs, and files as sriov-cni writes them.
Reads the calls from standard input, prints their answers.
"""

import json
import pathlib
import sys
from concurrent import futures

import grpc

from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt import pod_resources
from sriov_rt.kubevirt import server
from sriov_rt.kubevirt import this_node

_EXECUTE = f"/{contract.NODE_SERVICE}/ExecuteNodeHook"


class _Kubelet(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers List with one pod.

    :param pod: name; without one there are none.
    """

    def __init__(self, namespace: str, pod: str | None, vf: str) -> None:
        kinds = pod_resources.kinds()
        devices = kinds["ContainerDevices"](
            resource_name="example.com/vf", device_ids=[vf]
        )
        container = kinds["ContainerResources"](
            name="compute", devices=[devices]
        )
        found = kinds["PodResources"](
            name=pod or "", namespace=namespace, containers=[container]
        )
        self._answer = kinds["ListPodResourcesResponse"](
            pod_resources=[found] if pod else []
        )

    def service(self, details: grpc.HandlerCallDetails) -> object:
        return grpc.unary_unary_rpc_method_handler(
            lambda *_: self._answer.SerializeToString()
        )


def main() -> None:
    """Serve, call and print."""
    directory = pathlib.Path(sys.argv[1])
    given = json.load(sys.stdin)
    kubelet = grpc.server(
        futures.ThreadPoolExecutor(1),
        handlers=(_Kubelet(given["namespace"], given["pod"], given["vf"]),),
    )
    kubelet.add_insecure_port(f"unix:{directory}/kubelet.sock")
    kubelet.start()
    hook = this_node.hook(f"{directory}/kubelet.sock", directory / "cni")
    socket = directory / "node.sock"
    running = server.start(socket, server.node_calls(hook.execute), 0o600)
    answers = []
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        for point in given["points"]:
            request = contract.message("ExecuteNodeHookRequest")(
                hookPoint=point, vmi=given["vmi"].encode()
            )
            try:
                channel.unary_unary(_EXECUTE)(
                    request.SerializeToString(), timeout=600
                )
                answers.append("")
            except grpc.RpcError as error:
                answers.append(f"{error.code().name}: {error.details()}")
    if given["sweep"]:
        hook.sweep()
    running.stop(1).wait()
    kubelet.stop(1).wait()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
