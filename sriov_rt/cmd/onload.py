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

"""``sriov-rt onload``: profiles, what is injected, and is it in effect."""

import argparse
import dataclasses
import json
import os
import pathlib
import stat
import sys
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import onload_hook
from sriov_rt.cmd.command import Found
from sriov_rt.codec import Unknown
from sriov_rt.facts import Workload
from sriov_rt.host.root import Root
from sriov_rt.host.table import printable
from sriov_rt.onload import instances
from sriov_rt.onload import lxc
from sriov_rt.onload import plan
from sriov_rt.onload import pod
from sriov_rt.onload import rootfs
from sriov_rt.onload import runtime_class
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload import status
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.settings import Settings
from sriov_rt.onload.status import Driver
from sriov_rt.onload.status import Effect

#: Exit code of a list with a profile that can't be used.
EXIT_REJECTED = 1

#: Where LXC keeps containers (lxc.lxcpath).
CONTAINERS = "/var/lib/lxc"

#: Where the device plugin of Onload's operator puts the library in pods
#: (hostPathPrefix and baseMountPath of its README).
POD_LIBRARY = "/opt/onload/usr/lib64/libonload.so"

_CGROUP2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")


class NoDevice(OnloadError):
    """A device node of Onload is not there.

    :param path: of the node.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} is not a character device of this host; load Onload's "
            "modules ('onload_tool reload'), or take it out of [onload] "
            "devices"
        )


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="read the host whose / is DIR (default: this one)",
    )


def _add_profile(parser: argparse.ArgumentParser) -> None:
    onload_hook.add_config(parser)
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="an allowed profile (default: [onload] default_profile)",
    )


class ProfileList(command.Lister):
    """List the profiles that flavors may request.

    The exit code is 1 if one of them can't be used.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add where profiles and configuration are."""
        _add_root(parser)
        onload_hook.add_config(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the profiles."""
        settings = onload_settings.load(args.config_file)
        found = [
            _row(each, settings, args) for each in sorted(settings.profiles)
        ]
        rejected = any("problem" in each for each in found)
        none = "no profile is allowed; name some in [onload] profiles"
        return Found(
            columns=("Name", "State", "Default", "SHA256", "Problem"),
            shown=("Name", "State", "Problem"),
            rows=[
                (
                    each["name"],
                    "refused" if "problem" in each else "usable",
                    each["default"],
                    each.get("sha256", ""),
                    each.get("problem", ""),
                )
                for each in found
            ],
            document=found,
            before=() if found else (none,),
            code=EXIT_REJECTED if rejected else 0,
        )


def _row(
    name: str, settings: Settings, args: argparse.Namespace
) -> dict[str, object]:
    row: dict[str, object] = {
        "name": name,
        "default": name == settings.default_profile,
    }
    try:
        found = settings.profile(name, Root(args.root))
    except OnloadError as error:
        return {**row, "problem": str(error)}
    assert found is not None
    return {**row, "sha256": found.sha256}


class ProfileShow(command.ShowOne):
    """Show what a profile sets."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the profile, and where profiles and configuration are."""
        parser.add_argument(
            "name", metavar="NAME", help="of an allowed profile"
        )
        _add_root(parser)
        onload_hook.add_config(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the profile."""
        settings = onload_settings.load(args.config_file)
        found = settings.profile(args.name, Root(args.root))
        assert found is not None
        return command.one(
            (
                ("name", found.name),
                ("sha256", found.sha256),
                ("files", "\n".join(each.path for each in found.files)),
                *found.variables.items(),
            ),
            found.to_plain(),
        )


class Status(command.Lister):
    """Print which processes have Onload, and whether it is in effect."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the host to read."""
        _add_root(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the processes."""
        root = Root(args.root)
        driver = status.driver(root)
        every = status.Processes(root)
        effects = list(status.all_of(every, driver))
        containers = instances.containers(root)
        known = () if isinstance(containers, Unknown) else containers
        whose = instances.processes(root, known)
        asked = instances.observe(root)
        document = {
            "driver": _driver(driver),
            "processes": [_process(each, whose) for each in effects],
            "instances": None
            if isinstance(asked, Unknown)
            else [dataclasses.asdict(each) for each in asked],
            "unreadable": every.unreadable,
        }
        return Found(
            columns=("PID", "Instance", "Name", "State", "Library"),
            shown=("PID", "Instance", "State"),
            rows=[
                (
                    each.process.pid,
                    whose.get(each.process.pid, ""),
                    each.process.name,
                    each.sentence,
                    each.process.library or "",
                )
                for each in effects
            ],
            document=document,
            before=[_driver_line(driver)],
            after=list(_summary(effects, asked, every.unreadable)),
        )


def _summary(
    effects: Sequence[Effect],
    asked: Sequence[Workload] | Unknown,
    unreadable: int,
) -> Iterator[str]:
    if not effects:
        yield "no process has loaded or requested Onload"
    if isinstance(asked, Unknown):
        yield f"instances: unknown ({printable(asked.reason)})"
    else:
        yield from map(_state, asked)
    if unreadable:
        noun = "process" if unreadable == 1 else "processes"
        yield f"{unreadable} {noun} could not be inspected; run as root"


def _driver_line(driver: Driver) -> str:
    if isinstance(driver.is_loaded, Unknown):
        return f"onload module: unknown ({driver.is_loaded.reason})"
    return f"onload module: {'loaded' if driver.is_loaded else 'none'}"


def _state(found: Workload) -> str:
    why = f": {printable(found.why)}" if found.why else ""
    return f"instance={found.instance} {found.state}{why}"


def _driver(driver: Driver) -> dict[str, Any]:
    loaded, stacks = driver.is_loaded, driver.stacks
    return {
        "loaded": None if isinstance(loaded, Unknown) else loaded,
        "stacks": None
        if isinstance(stacks, Unknown)
        else sum(stacks.values()),
    }


def _process(found: Effect, whose: Mapping[int, str]) -> dict[str, Any]:
    process = found.process
    return {
        "pid": process.pid,
        "instance": whose.get(process.pid),
        "name": process.name,
        "state": found.state.value,
        "message": found.sentence,
        "library": process.library,
        "soname": process.soname,
        "stand_in": found.is_stand_in,
        "variables": dict(process.variables),
    }


class LxcConfig(command.Text):
    """Print the lines for a container's configuration."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the container and its profile."""
        parser.add_argument("name", metavar="NAME", help="of the container")
        _add_profile(parser)
        parser.add_argument(
            "--rootfs",
            metavar="DIR",
            help="its root file system, to be checked (default: "
            f"{CONTAINERS}/NAME/rootfs)",
        )
        onload_hook.add_init(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the lines."""
        name = lxc.check_name(parsed_args.name)
        settings = onload_settings.load(parsed_args.config_file)
        profile = settings.profile(parsed_args.profile, Root())
        injection = plan.container(settings, profile)
        image = parsed_args.rootfs or f"{CONTAINERS}/{name}/rootfs"
        if not pathlib.Path(image).is_dir():
            faults.say(
                f"{image} is not there, the image was not checked; the hook "
                "does so when the container starts"
            )
        elif refused := rootfs.why_not(
            Root(image), parsed_args.init, Root(), injection.library
        ):
            return onload_hook.refuse(refused)
        nodes = tuple(map(_node, injection.devices))
        cgroup = 2 if _CGROUP2.exists() else 1
        print("\n".join(lxc.lines(injection, nodes, cgroup)))
        return 0


def _node(path: str) -> lxc.Node:
    try:
        found = pathlib.Path(path).stat()
    except OSError:
        raise NoDevice(path) from None
    if not stat.S_ISCHR(found.st_mode):
        raise NoDevice(path)
    return lxc.Node(path, os.major(found.st_rdev), os.minor(found.st_rdev))


class LxcHook(command.Text):
    """Refuse to start a container into which nothing would be preloaded.

    For lxc.hook.pre-start.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what LXC gives."""
        onload_hook.configure_lxc_hook(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Check the container's image."""
        return onload_hook.lxc_hook(parsed_args)


class PodPatch(command.Text):
    """Read a pod (JSON) and write the JSON patch that gives it Onload."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the profile and the network."""
        _add_profile(parser)
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
            help="which, if there is more than one",
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

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the patch."""
        settings = onload_settings.load(parsed_args.config_file)
        given = pod.parse(sys.stdin.buffer.read(pod.MAX_DOCUMENT + 1))
        profile = settings.profile(parsed_args.profile, Root())
        library, mount = _pod_library(settings, mounted=parsed_args.mount)
        operations = pod.patch(
            given,
            plan.environment(library, profile),
            resource=settings.resource,
            network=parsed_args.network,
            container=parsed_args.container,
            mount=mount,
            runtime=_runtime_class(parsed_args.runtime_class),
        )
        if others := pod.other_networks(given, parsed_args.network):
            faults.say(
                f"the pod is also attached to {', '.join(others)}; only pods "
                f"of network {parsed_args.network} are kept off each other's "
                "nodes"
            )
        wanted = (
            pod.apply(given, operations) if parsed_args.dry_run else operations
        )
        print(json.dumps(wanted, indent=2))
        return 0


def _runtime_class(path: pathlib.Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    with path.open("rb") as file:
        text = file.read(pod.MAX_DOCUMENT + 1)
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
