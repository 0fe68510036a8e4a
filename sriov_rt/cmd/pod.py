# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt pod``: which nodes take a pod, and VFs of the host's pods."""

import argparse
import contextlib
import os
import pathlib
import re
import textwrap
import time
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import paths
from sriov_rt.cmd.command import Result
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.pods import cluster
from sriov_rt.pods import feasible_nodes
from sriov_rt.pods import pod
from sriov_rt.pods import pod_request

#: Exit code if no node takes the pod.
EXIT_NO_NODE = 1

#: Exit code if a VF of a pod is quarantined.
EXIT_QUARANTINED = 1

#: The longest file of a cluster that is read, in bytes.
MAX_CLUSTER = 256 * 1024 * 1024

_CLUSTER = (
    "the output of 'for kind in nodes pods runtimeclasses "
    "network-attachment-definitions noderesourcetopologies; do kubectl get "
    "$kind -A -o json; done'"
)

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


class PodMalformed(exceptions.SriovRtError):
    """The argument of a command names neither a file nor a pod.

    :param text: the argument as it was given.
    """

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:80]!r} is neither a file nor a pod's name; give a file "
            "with a manifest, '-' for standard input, or NAME or "
            "NAMESPACE/NAME of a pod of the cluster"
        )


class Explain(command.Lister):
    """Print which nodes take a pod, and why the others do not.

    Networks, VFs, runtime classes, Onload, the topology manager and labels
    are judged, as if the pod were to be scheduled again. Of a pod of the
    cluster what kube-scheduler says is quoted.
    """

    epilog = (
        "Exit codes: 0 a node takes the pod, 1 none does by what is judged or "
        "by what kube-scheduler says, 2 the pod or the cluster cannot be read."
    )
    nothing = "the cluster has no nodes"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the pod and the cluster."""
        parser.add_argument(
            "pod",
            metavar="POD|FILE",
            help="[NAMESPACE/]NAME of a pod, or a file with the JSON or YAML "
            "of a Pod or of something with a pod template; '-' reads standard "
            "input",
        )
        source = parser.add_mutually_exclusive_group()
        source.add_argument(
            "--cluster",
            metavar="FILE",
            type=pathlib.Path,
            help=f"judge by a file instead: {_CLUSTER}",
        )
        source.add_argument(
            "--kubeconfig",
            metavar="FILE",
            help="the kubeconfig file (default: KUBECONFIG, or "
            "~/.kube/config)",
        )
        parser.add_argument(
            "--context",
            metavar="NAME",
            help="a context of the kubeconfig file",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the nodes with their Reasons."""
        given = _manifest(args.pod)
        get = None if args.cluster else cluster.connect(*_access(args))
        is_file = given is not None
        if given is None:
            given = _running(args, get)
        else:
            given = pod_request.admitted(given)
        said = feasible_nodes.said(given)
        found = _cluster(args.cluster) if get is None else cluster.read(get)
        runtime = feasible_nodes.find_class(given, found)
        with _naming(_path(args.pod), pod.NEEDED):
            request = pod_request.read(given, runtime)
        placements = feasible_nodes.judge(request, found, time.time())
        passes = said is None and any(each.passes for each in placements)
        return Result(
            columns=(
                "Node",
                "Passes",
                "Label Age",
                "Code",
                "Problem",
                "Remedy",
            ),
            shown=("Node", "Passes", "Label Age", "Problem", "Remedy"),
            rows=[row for each in placements for row in _rows(each)],
            document=[
                {
                    **each.to_plain(),
                    "said": said,
                    "not_judged": list(feasible_nodes.NOT_JUDGED),
                }
                for each in placements
            ],
            before=[] if said is None else [said],
            after=_not_judged() if is_file and said is None else [],
            code=0 if passes else EXIT_NO_NODE,
        )


def _not_judged() -> list[str]:
    left = ", ".join(feasible_nodes.NOT_JUDGED)
    text = f"Not judged, since kube-scheduler has not seen a file: {left}."
    return textwrap.wrap(text, 79)


def _rows(found: feasible_nodes.Placement) -> list[tuple[object, ...]]:
    age = "" if found.label_age_s is None else f"{found.label_age_s} s"
    # Notes do not matter on a node that refuses the pod.
    every = found.reasons or found.notes
    if not every:
        return [(found.node, True, age, "", "", "")]
    return [
        (found.node, found.passes, age, each.code, each.problem, each.remedy)
        for each in every
    ]


def _access(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the kubeconfig file, and the context."""
    given = args.kubeconfig or paths.kubeconfig()
    # The client would block on a FIFO; a KUBECONFIG may name several files.
    if given and os.pathsep not in given:
        paths.read(pathlib.Path(given), pod.MAX_DOCUMENT, "a kubeconfig")
    return given, args.context


def _cluster(path: pathlib.Path) -> feasible_nodes.Cluster:
    """Return the cluster described by a file.

    :raises InputUnusable: if it has no Nodes.
    """
    text = paths.read(path, MAX_CLUSTER, _CLUSTER)
    with _naming(path, _CLUSTER):
        found = cluster.of_objects(pod.decode(text, MAX_CLUSTER))
    if not found.nodes:
        raise paths.InputUnusable(path, "it has no Nodes", _CLUSTER)
    return found


def _path(text: str) -> pathlib.Path:
    return pathlib.Path("standard input" if text == "-" else text)


@contextlib.contextmanager
def _naming(path: pathlib.Path, needed: str) -> Iterator[None]:
    """Name the file in the error for a rejected document."""
    try:
        yield
    except pod.PodRejected as error:
        raise paths.InputUnusable(path, error.problem, needed) from None


def _manifest(text: str) -> Mapping[str, Any] | None:
    """Return the pod in a file; None if the text names a pod instead.

    :raises PodMalformed: if it is neither a file nor a name.
    :raises InputUnusable: if the file contains something else.
    """
    path = _path(text)
    with _naming(path, pod.NEEDED):
        if text == "-":
            return pod.parse(faults.read_input("a Pod", pod.MAX_DOCUMENT))
        if path.exists():
            return pod.parse(paths.read(path, pod.MAX_DOCUMENT, pod.NEEDED))
    if not all(map(_NAME.fullmatch, text.split("/"))) or text.count("/") > 1:
        raise PodMalformed(text)
    return None


def _running(
    args: argparse.Namespace, get: cluster.Get | None
) -> Mapping[str, Any]:
    *prefix, name = args.pod.split("/")
    namespace = prefix[0] if prefix else "default"
    if get is None:
        raise PodMalformed(args.pod)
    found: Mapping[str, Any] | None = cluster.find_pod(get, namespace, name)
    if found is None:
        raise exceptions.SriovRtError(
            f"the cluster has no pod {namespace}/{name}; see 'kubectl get "
            "pods -A', or give a file with its manifest"
        )
    return found


class Vfs(command.Lister):
    """List the VFs of this host's pods, and those that are quarantined.

    The exit code is 1 if one is.
    """

    of_root = True
    nothing = "no pod has a VF through sriov-rt-vf"

    def run(self, args: argparse.Namespace) -> Result:
        """Return the VFs."""
        every = [
            (address, holder, *holder.id.partition("/")[::2])
            for address, holder in Tenancies().of_kind(Kind.POD)
        ]
        return Result(
            columns=(
                "VF",
                "Pod",
                "Network",
                "Interface",
                "State",
                "Container",
                "Problem",
            ),
            shown=("VF", "Pod", "Network", "Interface", "State", "Problem"),
            rows=[
                (
                    address,
                    each.name,
                    each.network,
                    interface,
                    each.state,
                    container,
                    each.reason,
                )
                for address, each, container, interface in every
            ],
            document=[
                {
                    "vf": address,
                    "pod": each.name,
                    "network": each.network,
                    "interface": interface,
                    "container": container,
                    "quarantined": each.is_quarantined,
                    "problem": each.reason,
                }
                for address, each, container, interface in every
            ],
            code=EXIT_QUARANTINED
            if any(each.is_quarantined for _, each, _, _ in every)
            else 0,
        )
