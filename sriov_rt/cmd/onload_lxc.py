# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt onload lxc-*``: Onload in LXC containers."""

import argparse
import os
import pathlib
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Result
from sriov_rt.host.root import Root
from sriov_rt.onload import rootfs
from sriov_rt.onload.errors import OnloadError
from sriov_rt.reason import Reason

if TYPE_CHECKING:
    from sriov_rt.onload import lxc

#: Exit code for an image into which nothing would be preloaded.
EXIT_REFUSED = 3

#: Where LXC keeps containers (lxc.lxcpath).
CONTAINERS = "/var/lib/lxc"

_CGROUP2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")


class NoDevice(OnloadError):
    """A device node of Onload is missing."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} is not a character device of this host; load Onload's "
            "modules ('onload_tool reload'), or take it out of [onload] "
            "devices"
        )


class LxcConfig(command.Lister):
    """Print the lines for a container's configuration."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the container and its profile."""
        parser.add_argument(
            "name", metavar="NAME", help="the name of the container"
        )
        add_profile(parser)
        parser.add_argument(
            "--rootfs",
            metavar="DIR",
            help="its root file system, to be checked (default: "
            f"{CONTAINERS}/NAME/rootfs)",
        )
        _add_init(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the lines."""
        # Imported here, since oslo.config takes long to import.
        from sriov_rt.onload import lxc
        from sriov_rt.onload import plan
        from sriov_rt.onload import settings as onload_settings

        name = lxc.check_name(args.name)
        settings = onload_settings.load(args.config_file)
        profile = settings.profile(args.profile, Root())
        injection = plan.container(settings, profile)
        image = args.rootfs or f"{CONTAINERS}/{name}/rootfs"
        if not pathlib.Path(image).is_dir():
            faults.say(
                f"{image} is not there, the image was not checked; the hook "
                "does so when the container starts"
            )
        elif refused := rootfs.why_not(
            Root(image), args.init, Root(), injection.library
        ):
            return _refused(refused)
        nodes = tuple(map(_node, injection.devices))
        cgroup = 2 if _CGROUP2.exists() else 1
        return command.lines(lxc.lines(injection, nodes, cgroup))


def _node(path: str) -> "lxc.Node":
    from sriov_rt.onload import lxc

    try:
        found = pathlib.Path(path).stat()
    except OSError:
        raise NoDevice(path) from None
    if not stat.S_ISCHR(found.st_mode):
        raise NoDevice(path)
    return lxc.Node(path, os.major(found.st_rdev), os.minor(found.st_rdev))


class LxcHook(command.Lister):
    """Refuse to start a container into which nothing would be preloaded.

    For lxc.hook.pre-start.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what LXC gives."""
        parser.add_argument(
            "given",
            nargs="*",
            metavar="ARG",
            help="arguments of LXC, which are ignored",
        )
        command.add_config(parser, "onload")
        _add_init(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return why the container's image is refused."""
        # Imported here, since oslo.config takes long to import.
        from sriov_rt.onload import settings as onload_settings

        settings = onload_settings.load(args.config_file)
        # lxc.container.conf(5), "Container hooks"; a type may precede the
        # path.
        image = os.environ.get("LXC_ROOTFS_PATH", "")
        image = image.removeprefix("dir:")
        if not image or not pathlib.Path(image).is_dir():
            faults.say(
                "LXC_ROOTFS_PATH is not a directory, the image was not checked"
            )
            return _refused(())
        library = settings.needed_library()
        return _refused(
            rootfs.why_not(Root(image), args.init, Root(), library)
        )


def _refused(reasons: Sequence[Reason]) -> Result:
    """Print why an image is refused, and return the Reasons."""
    for each in reasons:
        faults.say(f"refused: {each.message}")
    return Result(
        columns=("Code", "Problem", "Remedy"),
        rows=[(each.code, each.problem, each.remedy) for each in reasons],
        document={"refused": [each.to_plain() for each in reasons]},
        text=(),
        code=EXIT_REFUSED if reasons else 0,
    )


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add the configuration and one of its profiles."""
    command.add_config(parser, "onload")
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="an allowed profile (default: [onload] default_profile)",
    )


def _add_init(parser: argparse.ArgumentParser) -> None:
    """Add the program that a container starts with."""
    parser.add_argument(
        "--init",
        default="/sbin/init",
        metavar="PATH",
        help="the program that the container starts (default: %(default)s)",
    )
