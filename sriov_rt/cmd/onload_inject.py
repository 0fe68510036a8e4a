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


"""``sriov-rt onload lxc-config``, ``lxc-hook`` and ``pod-patch``."""

import argparse
import json
import os
import pathlib
import stat
import sys

from sriov_rt.host.root import Root
from sriov_rt.onload import lxc
from sriov_rt.onload import plan
from sriov_rt.onload import pod
from sriov_rt.onload import rootfs
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.settings import Settings
from sriov_rt.reason import Reason

#: Exit code for an image into which nothing would be preloaded.
EXIT_REFUSED = 3

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
            f"{path} is no character device of this host; load Onload's "
            "modules ('onload_tool reload'), or take it out of [onload] "
            "devices"
        )


def configure_lxc_config(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``lxc-config``."""
    parser.add_argument("name", metavar="NAME", help="of the container")
    _add_common(parser)
    parser.add_argument(
        "--rootfs",
        metavar="DIR",
        help="its root file system, to be checked (default: "
        f"{CONTAINERS}/NAME/rootfs)",
    )
    _add_init(parser)
    parser.set_defaults(run=_lxc_config)


def configure_lxc_hook(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``lxc-hook``: those that LXC gives."""
    parser.add_argument(
        "given", nargs="*", metavar="ARG", help="what LXC gives; not used"
    )
    _add_config(parser)
    _add_init(parser)
    parser.set_defaults(run=_lxc_hook)


def configure_pod_patch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``pod-patch``."""
    _add_common(parser)
    parser.add_argument(
        "--network",
        required=True,
        metavar="NAME",
        help="the network of its accelerated traffic: two pods of one "
        "network do not share a node",
    )
    parser.add_argument(
        "--container", metavar="NAME", help="which, if there is more than one"
    )
    parser.add_argument(
        "--mount",
        action="store_true",
        help="mount the library's directory from the node, where no device "
        "plugin brings it",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the pod as it would be, rather than the patch",
    )
    parser.set_defaults(run=_pod_patch)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="instead of sriov-rt.conf; may be repeated",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="an allowed profile (default: [onload] default_profile)",
    )


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--init",
        default="/sbin/init",
        metavar="PATH",
        help="what is started in it (default: %(default)s)",
    )


def _lxc_config(args: argparse.Namespace) -> int:
    name = lxc.check_name(args.name)
    settings = onload_settings.load(args.config_file)
    profile = settings.profile(args.profile, Root())
    injection = plan.container(settings, profile)
    image = args.rootfs or f"{CONTAINERS}/{name}/rootfs"
    if not pathlib.Path(image).is_dir():
        print(
            f"sriov-rt: {image} is not there, the image was not checked; the "
            "hook does so when the container starts",
            file=sys.stderr,
        )
    elif refused := rootfs.why_not(
        Root(image), args.init, Root(), injection.library
    ):
        return _refuse(refused)
    nodes = tuple(map(_node, injection.devices))
    cgroup = 2 if _CGROUP2.exists() else 1
    print("\n".join(lxc.lines(injection, nodes, cgroup)))
    return 0


def _lxc_hook(args: argparse.Namespace) -> int:
    settings = onload_settings.load(args.config_file)
    # lxc.container.conf(5), "Container hooks"; a path may have its type
    # before it.
    image = os.environ.get("LXC_ROOTFS_PATH", "")
    image = image.removeprefix("dir:")
    if not image or not pathlib.Path(image).is_dir():
        print(
            "sriov-rt: LXC_ROOTFS_PATH is no directory, the image was not "
            "checked",
            file=sys.stderr,
        )
        return 0
    library = settings.needed_library()
    return _refuse(rootfs.why_not(Root(image), args.init, Root(), library))


def _refuse(reasons: tuple[Reason, ...]) -> int:
    for each in reasons:
        print(f"sriov-rt: refused: {each.message}", file=sys.stderr)
    return EXIT_REFUSED if reasons else 0


def _node(path: str) -> lxc.Node:
    try:
        found = pathlib.Path(path).stat()
    except OSError:
        raise NoDevice(path) from None
    if not stat.S_ISCHR(found.st_mode):
        raise NoDevice(path)
    return lxc.Node(path, os.major(found.st_rdev), os.minor(found.st_rdev))


def _pod_patch(args: argparse.Namespace) -> int:
    settings = onload_settings.load(args.config_file)
    given = pod.parse(sys.stdin.buffer.read(pod.MAX_DOCUMENT + 1))
    profile = settings.profile(args.profile, Root())
    library, mount = _pod_library(settings, mounted=args.mount)
    operations = pod.patch(
        given,
        plan.environment(library, profile),
        resource=settings.resource,
        network=args.network,
        container=args.container,
        mount=mount,
    )
    wanted = pod.apply(given, operations) if args.dry_run else operations
    print(json.dumps(wanted, indent=2))
    return 0


def _pod_library(
    settings: Settings, *, mounted: bool
) -> tuple[str, plan.Mount | None]:
    if not mounted:
        return POD_LIBRARY, None
    directory, _, name = settings.needed_library().rpartition("/")
    return f"{settings.inside}/{name}", plan.Mount(directory, settings.inside)
