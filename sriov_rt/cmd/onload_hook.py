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

"""Check of Onload in a container before it starts: without cliff.

The container waits for it: see :mod:`sriov_rt.cmd.hook`.
"""

import argparse
import os
import pathlib

from sriov_rt.cmd import faults
from sriov_rt.host.root import Root
from sriov_rt.onload import rootfs
from sriov_rt.reason import Reason

#: Exit code for an image into which nothing would be preloaded.
EXIT_REFUSED = 3


def configure_lxc_hook(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``lxc-hook``: those that LXC gives."""
    parser.add_argument(
        "given", nargs="*", metavar="ARG", help="what LXC gives; not used"
    )
    add_config(parser)
    add_init(parser)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add ``--config-file``."""
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="instead of sriov-rt.conf; may be repeated",
    )


def add_init(parser: argparse.ArgumentParser) -> None:
    """Add ``--init``."""
    parser.add_argument(
        "--init",
        default="/sbin/init",
        metavar="PATH",
        help="what is started in it (default: %(default)s)",
    )


def lxc_hook(args: argparse.Namespace) -> int:
    """Refuse an image into which nothing would be preloaded."""
    # Here, for oslo.config takes long to import.
    from sriov_rt.onload import settings as onload_settings

    settings = onload_settings.load(args.config_file)
    # lxc.container.conf(5), "Container hooks"; a path may have its type
    # before it.
    image = os.environ.get("LXC_ROOTFS_PATH", "")
    image = image.removeprefix("dir:")
    if not image or not pathlib.Path(image).is_dir():
        faults.say(
            "LXC_ROOTFS_PATH is not a directory, the image was not checked"
        )
        return 0
    library = settings.needed_library()
    return refuse(rootfs.why_not(Root(image), args.init, Root(), library))


def refuse(reasons: tuple[Reason, ...]) -> int:
    """Print why an image cannot be, and return the exit code."""
    for each in reasons:
        faults.say(f"refused: {each.message}")
    return EXIT_REFUSED if reasons else 0
