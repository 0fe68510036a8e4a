# SPDX-License-Identifier: Apache-2.0

"""sriov-rt of an earlier commit, in a directory beside the installed one.

A service with this directory first in PYTHONPATH runs that commit, including
its entry points: Python uses the first of two distributions with one name.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from tests.testbed import errors
from tests.testbed import paths
from tests.testbed.python_env import PythonEnv
from tests.testbed.waiting import run
from tests.testbed.waiting import run_logged

#: Variable that names an earlier commit to upgrade from.
VARIABLE = "SRIOV_RT_PREVIOUS"
#: The state that landed last before this one: what operators upgrade from
#: where the environment names none. When another has landed, put its commit
#: here, and what tests.functional.scheduler.test_mixed_releases and
#: tests.cloud.test_rolling find then into doc/source/admin/upgrade.rst.
LANDED = "6c4a4c0b1d1ebe0d794b1827493cfd4e488862c8"


def commit() -> str:
    """Return the name of the commit to upgrade from."""
    return os.environ.get(VARIABLE) or LANDED


def unpack(
    revision: str, directory: pathlib.Path, checkout: pathlib.Path
) -> None:
    """Unpack the files of a commit.

    :param revision: the commit's full name.
    :param directory: directory for the files.
    :param checkout: checkout whose history has the commit.
    :raises errors.TestbedError: when the history lacks it.
    """
    done = subprocess.run(
        ("git", "-C", str(checkout), "archive", revision),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise errors.TestbedError(
            f"commit {revision} is not in the git history of {checkout}; in a "
            f"shallow clone run 'git fetch origin {revision}' first "
            f"({done.stderr.decode(errors='replace').strip()})"
        )
    directory.mkdir(parents=True, exist_ok=True)
    run(
        ("tar", "-x", "-C", str(directory)),
        timeout=120,
        stdin=done.stdout,
    )


def install(
    env: PythonEnv,
    directory: pathlib.Path,
    log: pathlib.Path,
) -> None:
    """Install sriov-rt of that commit into a directory of its own.

    Nothing is downloaded: its requirements are those of the environment.

    :param env: environment whose pip and packages are used.
    :param directory: directory for PYTHONPATH; replaced if it exists.
    :param log: file that takes pip's output.
    :raises errors.TestbedError: when it can't be unpacked or built.
    """
    pip = (env.program("python"), "-m", "pip")
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "source")
        unpack(commit(), source, paths.CHECKOUT)
        run_logged(
            (
                *(*pip, "wheel", "--no-deps", "--no-build-isolation"),
                *("--wheel-dir", scratch, str(source)),
            ),
            timeout=300,
            # The unpacked files have no git history for pbr's version.
            environment={**os.environ, "PBR_VERSION": f"0.9.0+{commit()[:7]}"},
            log=log,
        )
        (wheel,) = pathlib.Path(scratch).glob("sriov_rt-*.whl")
        shutil.rmtree(directory, ignore_errors=True)
        run_logged(
            (
                *(*pip, "install", "--no-deps"),
                *("--target", str(directory), str(wheel)),
            ),
            timeout=300,
            log=log,
        )
