# SPDX-License-Identifier: Apache-2.0

"""Deployment tools, from the package index, in environments of their own.

They are in the cache, named after what they were made from.
"""

import fcntl
import functools
import hashlib
import pathlib
import subprocess
import sys

from tests.testbed import paths
from tests.testbed.waiting import run_logged

#: A later release than the tests have seen must not fail a change of ours.
KOLLA = (
    "ansible-core>=2.19.1,<2.20",
    "docker>=7,<8",
    "kolla>=23.0.0,<24",
    "kolla-ansible>=22.0.0,<23",
)

#: The plugin's last release does not load with a later ansible-core, and wants
#: distutils: Python 3.12 and later have it from setuptools alone.
OPENSTACK_ANSIBLE = (
    "ansible-config-template>=2.1.1,<3",
    "ansible-core>=2.18,<2.19",
    "setuptools>=77,<85",
)

#: Seconds that installing may take from an empty cache.
_INSTALL_S = 900


@functools.cache
def home(required: tuple[str, ...]) -> pathlib.Path:
    """Return the environment that has packages, made if need be.

    :param required: requirements, as pip takes them.
    :raises errors.TestbedError: if something can't be installed.
    """
    places = paths.Paths.from_environment()
    places.make()
    text = "\n".join((sys.version, *required))
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    found = places.cache / f"venv-deployment-{key}"
    mark = found / ".installed"
    with found.with_suffix(".lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if not mark.exists():
            log = places.log / "pip-deployment.log"
            command = (sys.executable, "-m", "venv", "--clear", str(found))
            run_logged(command, timeout=300, log=log)
            pip = (str(found / "bin/pip"), "install", *required)
            run_logged(pip, timeout=_INSTALL_S, log=log)
            mark.touch()
    return found


def output_of(command: tuple[str, ...], timeout: float) -> str:
    """Run a command and return what it prints.

    :raises AssertionError: with its output, if it fails.
    """
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout
