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

"""The Neutron releases that are supported, each in a process of its own.

Neutron and Nova cannot be in one process: both register the same options,
and Nova's modules, which tests.functional imports, refuse eventlet.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

#: The one that the tests' environment has; the others are put before it.
INSTALLED = 29

#: The others, and the neutron-lib that came with each.
OTHERS = {
    27: ("neutron>=27,<28", "neutron-lib>=3.21.1,<3.23"),
    28: ("neutron>=28,<29", "neutron-lib>=4,<5"),
}

CASES = pathlib.Path(__file__).parent / "cases"

_ROOT = pathlib.Path(__file__).resolve().parents[3]

#: Seconds that an installation and a run may take.
_INSTALL_S = 300
_RUN_S = 600

_RUNNER = """
import importlib.metadata
import sys
found = importlib.metadata.version("neutron")
if not found.startswith(sys.argv[1] + "."):
    sys.exit(f"Neutron {found} and not {sys.argv[1]}")
import testtools.run
testtools.run.main(sys.argv[1:], sys.stdout)
"""


def run(release: int, *tests: str) -> tuple[int, str]:
    """Run modules of cases against a release; return exit code and output.

    :param release: its major version; it is installed if need be.
    :param tests: names of modules, classes or methods.
    :raises subprocess.SubprocessError: if it can't be installed or hangs.
    """
    path = [str(_ROOT), str(CASES)]
    if release != INSTALLED:
        path.insert(0, str(_installed(release)))
    done = subprocess.run(
        (sys.executable, "-W", "ignore", "-c", _RUNNER, str(release), *tests),
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_RUN_S,
    )
    return done.returncode, done.stdout


def _installed(release: int) -> pathlib.Path:
    home = pathlib.Path(
        os.environ.get("SRIOV_RT_CONTRACTS")
        or pathlib.Path(tempfile.gettempdir(), "sriov-rt-contracts")
    )
    home.mkdir(parents=True, exist_ok=True)
    target = home / f"neutron-{release}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            fresh = pathlib.Path(scratch, "neutron")
            subprocess.run(
                (
                    *(sys.executable, "-m", "pip", "install", "--quiet"),
                    *("--no-deps", "--target", str(fresh)),
                    *OTHERS[release],
                ),
                check=True,
                timeout=_INSTALL_S,
            )
            _rename(fresh, target)
    return target


def _rename(fresh: pathlib.Path, target: pathlib.Path) -> None:
    try:
        fresh.rename(target)
    except OSError:
        # Another process was quicker.
        if not target.exists():
            raise
