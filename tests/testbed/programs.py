# SPDX-License-Identifier: Apache-2.0

"""The environment that the cloud's programs run in."""

import pathlib
import stat

from tests.testbed import paths
from tests.testbed import python_env

#: The test bed's own modules and entry points that services load.
_OWN_MODULES = pathlib.Path(__file__).with_name("neutron_tap")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SUDO = '#!/bin/sh\n# All of the test cloud runs as root already.\nexec "$@"\n'


def write_sudo(place: paths.Paths) -> None:
    """Write the sudo that Nova, os-brick and privsep call.

    :param place: the directories of the cloud.
    """
    path = _own_programs(place) / "sudo"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SUDO)
    path.chmod(stat.S_IRWXU)


def environment(
    place: paths.Paths,
    env: python_env.PythonEnv,
    earlier: pathlib.Path | None = None,
) -> dict[str, str]:
    """Return the environment of all services, without our own variables.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack.
    :param earlier: directory with another sriov-rt, as of earlier.install;
        None for that of the environment.
    """
    modules = [_OWN_MODULES] if earlier is None else [earlier, _OWN_MODULES]
    found = {
        "PATH": f"{_own_programs(place)}:{env.bin}:{_SYSTEM_PATH}",
        "HOME": str(place.run),
        "LANG": "C.UTF-8",
        "PYTHONPATH": ":".join(map(str, modules)),
        "PYTHONWARNINGS": "ignore",
        "OS_NEUTRON_CONFIG_FILES": "neutron.conf;ml2_conf.ini",
    }
    for name in ("keystone", "placement", "glance", "neutron", "nova"):
        variable = f"OS_{name.upper()}_CONFIG_DIR"
        found[variable] = str(place.etc / name)
    return found


def _own_programs(place: paths.Paths) -> pathlib.Path:
    return place.etc / "bin"
