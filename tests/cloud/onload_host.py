# SPDX-License-Identifier: Apache-2.0

"""The host lxc-1 as if it had Onload: all that it is given stands in.

No card, no module and no library of Onload is there. What our code looks at
is: entries of /sys and /dev, in the host's own mount namespace, and a library
that counts calls of socket(). They prove that Onload is found and injected,
and nothing of acceleration.
"""

import os
import pathlib
import stat

from tests.testbed import container_config
from tests.testbed import ini
from tests.testbed import standin
from tests.testbed.container_host import ContainerHost

#: Where the library is in containers; the default of ``[onload] inside``.
INSIDE = "/opt/sriov-rt/onload"
LIBRARY = f"{INSIDE}/libonload.so"

PROFILE = "cloud-latency"
#: What the profile sets.
VARIABLES = {"EF_POLL_USEC": "100000", "EF_TCP_FASTSTART_INIT": "0"}

DEVICES = ("onload", "onload_epoll", "sfc_char")
#: The numbers of /dev/null: nothing of Onload is behind the nodes.
_NULL = os.makedev(1, 3)
_MODULES = ("onload", "sfc_char", "sfc_resource")

#: Below the root directory of the host.
CONFIG = pathlib.Path("etc/sriov_rt/sriov-rt.conf")


def equip(host: ContainerHost) -> None:
    """Give a host the stand-ins; nothing when it has them.

    :param host: the host, which is up.
    :raises errors.TestbedError: when it refuses them.
    """
    place = host.places.state / "onload"
    if place.exists():
        return
    standin.library(place)
    profiles = place / "profiles"
    profiles.mkdir()
    lines = (f"onload_set {name} {text}" for name, text in VARIABLES.items())
    (profiles / f"{PROFILE}.opf").write_text("\n".join(lines) + "\n")
    _make_nodes(host.root / "dev")
    _bind_modules(host, place / "modules")
    _bind_driver(host, place / "driver")
    config = host.root / CONFIG
    config.write_text(config.read_text() + ini.render(_options(place)))


def _options(place: pathlib.Path) -> dict[str, ini.Section]:
    return {
        "onload": {
            "library": place / "lib" / "libonload.so",
            "profile_directories": place / "profiles",
            "profiles": PROFILE,
            "devices": ",".join(f"/dev/{name}" for name in DEVICES),
        }
    }


def _make_nodes(dev: pathlib.Path) -> None:
    # The host's own /dev, or there would be no "onload" to be missing.
    assert not (dev / "kmsg").exists(), f"{dev} is the machine's"
    for name in DEVICES:
        os.mknod(dev / name, stat.S_IFCHR | 0o600, _NULL)


def _bind_modules(host: ContainerHost, tree: pathlib.Path) -> None:
    """Put a tree over /sys/module, which takes no new entries itself."""
    for each in pathlib.Path("/sys/module").iterdir():
        (tree / each.name).mkdir(parents=True)
    for name in _MODULES:
        (tree / name).mkdir()
        (tree / name / "version").write_text("stand-in\n")
    host.run("mount", "--bind", str(tree), "/sys/module")


def _bind_driver(host: ContainerHost, tree: pathlib.Path) -> None:
    """Put a tree over /proc/driver: the NICs are registered for AF_XDP.

    As sfc_resource does until Onload 8 (efrm_nic_proc_intf_added in its
    src/driver/linux_resource/resource_driver.c). There is no version, which
    the library would have to fit, nor are there stacks.
    """
    for name in container_config.PARENTS:
        directory = tree / "sfc_resource" / name
        directory.mkdir(parents=True)
        (directory / "enable").write_text("1\n")
    host.run("mount", "--bind", str(tree), "/proc/driver")
