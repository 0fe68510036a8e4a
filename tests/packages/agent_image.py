# SPDX-License-Identifier: Apache-2.0

"""The image of the agent, by buildah from a wheel of this checkout.

No registry is asked: the base is a tree that debootstrap has made.
"""

import configparser
import os
import pathlib
import shutil
import subprocess
import sys

from tests.packages import sources
from tests.testbed import debian_tree
from tests.testbed import paths

SUITE = "trixie"

#: What the wheel in it is.
VERSION = "1.0.0"

#: Its name in its archive.
NAME = "localhost/sriov-rt-agent:latest"

_BUILD_S = 1800.0

#: How this machine's pip is set up, and whom it trusts.
_PIP = pathlib.Path("/etc/pip.conf")
_TRUSTED = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")

_BUILD = """
# Its default is more than a container may raise the limit to.
export CONTAINERS_CONF=/var/lib/containers/conf
echo '[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]' > $CONTAINERS_CONF
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
from=$(buildah from scratch)
cp -a /base/. "$(buildah mount "$from")"
buildah commit --rm "$from" localhost/base
cd /build
buildah build --build-arg BASE=localhost/base \\
    --volume /build/pip.conf:/etc/pip.conf:ro \\
    --volume /build/trusted.crt:/run/trusted.crt:ro \\
    --file etc/container/Containerfile --tag sriov-rt-agent .
"""

_ARCHIVE = f"""
buildah push sriov-rt-agent docker-archive:/var/lib/containers/agent.tar:{NAME}
"""


def build(place: pathlib.Path, then: str) -> str:
    """Build it, and return what that and a script print.

    :param place: a directory for what is built, on a disk.
    :param then: a script of bash that goes on with the image sriov-rt-agent.
    :raises errors.CommandFailed: when it can't be built, or the script fails.
    """
    log = paths.Paths.from_environment().log / "image.log"
    base = debian_tree.make(SUITE, (), log)
    tools = debian_tree.make(SUITE, ("buildah", "netavark"), log)
    tree, storage = place / "sriov-rt", place / "storage"
    storage.mkdir()
    sources.copy(tree)
    _wheel(tree)
    _set_up_pip(tree)
    output = place / "output"
    with debian_tree.alone(tools):
        debian_tree.run_in(
            tools,
            ("bash", "-euo", "pipefail", "-c", _BUILD + then),
            binds={
                base: "/base",
                tree: "/build",
                storage: "/var/lib/containers",
            },
            log=output,
            timeout=_BUILD_S,
        )
    return output.read_text()


def archive(place: pathlib.Path) -> pathlib.Path:
    """Build it, and return a file that container runtimes import.

    :param place: as of build().
    """
    build(place, _ARCHIVE)
    return place / "storage" / "agent.tar"


def _wheel(tree: pathlib.Path) -> None:
    subprocess.run(
        (
            *(sys.executable, "-m", "pip", "wheel", "--quiet"),
            *("--no-deps", "--wheel-dir", str(tree / "dist"), str(tree)),
        ),
        # There is no git history in the tree.
        env={**os.environ, "PBR_VERSION": VERSION},
        check=True,
        timeout=_BUILD_S,
    )


def _set_up_pip(tree: pathlib.Path) -> None:
    """Have packages come from where this machine has them from."""
    pip = configparser.ConfigParser(interpolation=None)
    pip.read(_PIP)
    pip.read_dict({"global": {"cert": "/run/trusted.crt"}})
    with (tree / "pip.conf").open("w") as stream:
        pip.write(stream)
    shutil.copy(_TRUSTED, tree / "trusted.crt")
