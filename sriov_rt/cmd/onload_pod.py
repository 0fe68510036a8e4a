# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt onload pod-patch`` and ``pod-profiles``: Onload in pods."""

import argparse
import json
import pathlib
from typing import Any

from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import onload_lxc
from sriov_rt.cmd import paths
from sriov_rt.cmd.command import Result
from sriov_rt.host.root import Root
from sriov_rt.onload import plan
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.settings import Settings
from sriov_rt.pods import pod
from sriov_rt.pods import profiles
from sriov_rt.pods import runtime_class

#: Path in pods where the device plugin of Onload's operator puts the library
#: (hostPathPrefix and baseMountPath of its README).
POD_LIBRARY = "/opt/onload/usr/lib64/libonload.so"


class PodPatch(command.Lister):
    """Read a pod (JSON) and write the JSON patch that gives it Onload."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the profile and the network."""
        onload_lxc.add_profile(parser)
        parser.add_argument(
            "--network",
            required=True,
            metavar="NAME",
            help="the NetworkAttachmentDefinition of its accelerated traffic, "
            "which Multus is to attach: two pods of one network do not share "
            "a node",
        )
        parser.add_argument(
            "--container",
            metavar="NAME",
            help="the container, if the pod has more than one",
        )
        parser.add_argument(
            "--mount",
            action="store_true",
            help="mount the library's directory from the node, where no "
            "device plugin brings it",
        )
        parser.add_argument(
            "--runtime-class",
            type=pathlib.Path,
            metavar="FILE",
            help="the pod's RuntimeClass (JSON): a pod is refused if its "
            "handler is Kata's or gVisor's",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="print the pod as it would be, rather than the patch",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the patch, or the pod."""
        settings = onload_settings.load(args.config_file)
        given = pod.parse(faults.read_input("a Pod", pod.MAX_DOCUMENT))
        profile = settings.profile(args.profile, Root())
        library, mount = _pod_library(settings, mounted=args.mount)
        operations = pod.patch(
            given,
            plan.environment(library, profile),
            resource=settings.resource,
            network=args.network,
            container=args.container,
            mount=mount,
            runtime=_runtime_class(args.runtime_class),
        )
        if others := pod.other_networks(given, args.network):
            faults.say(
                f"the pod is also attached to {', '.join(others)}; only pods "
                f"of network {args.network} are kept off each other's "
                "nodes"
            )
        for each in pod.other_resources(given, settings.resource):
            faults.say(
                f"the pod also requests {each}, which is Onload's in another "
                "release of its operator: remove it, or set [onload] resource"
            )
        if args.dry_run:
            found = pod.apply(given, operations)
            text = json.dumps(found, indent=2)
            return Result(("Pod",), [(text,)], found, text=[text])
        return Result(
            columns=("Op", "Path", "Value"),
            rows=[
                (each["op"], each["path"], json.dumps(each.get("value")))
                for each in operations
            ],
            document=operations,
            text=[json.dumps(operations, indent=2)],
        )


class PodProfiles(command.ShowOne):
    """Print the ConfigMap of the profiles that pods may request.

    'kubectl apply -f -' takes it; the policy sriov-rt-onload reads it.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add where profiles and configuration are."""
        command.add_root(parser)
        command.add_config(parser, "onload")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the ConfigMap."""
        settings = onload_settings.load(args.config_file)
        root = Root(args.root)
        document = profiles.config_map(
            {
                name: plan.environment(
                    POD_LIBRARY, settings.profile(name, root)
                )
                for name in settings.profiles
            },
            settings.resource,
        )
        if not document["data"]:
            faults.say("no profile is allowed; name some in [onload] profiles")
        return command.one(
            (
                ("namespace", profiles.NAMESPACE),
                ("name", profiles.NAME),
                *document["data"].items(),
            ),
            document,
            text=[json.dumps(document, indent=2)],
        )


def _runtime_class(path: pathlib.Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    text = paths.read(
        path, pod.MAX_DOCUMENT, f"a {runtime_class.KIND} in JSON"
    )
    try:
        return pod.parse(text)
    except pod.PodRejected as error:
        raise pod.PodRejected(
            f"its {runtime_class.KIND}: {error.problem}"
        ) from None


def _pod_library(
    settings: Settings, *, mounted: bool
) -> tuple[str, plan.Mount | None]:
    if not mounted:
        return POD_LIBRARY, None
    directory, _, name = settings.needed_library().rpartition("/")
    return f"{settings.inside}/{name}", plan.Mount(directory, settings.inside)
