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

"""The Nova releases that are supported, each to be run in its own process."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

#: The one that the tests' environment has; the others are put before it.
INSTALLED = 34
OTHERS = (32, 33)

_ROOT = pathlib.Path(__file__).resolve().parents[3]

#: Seconds that an installation and a run may take.
_INSTALL_S = 300
_RUN_S = 900

#: Nova 32 and 33 run on eventlet, which has to be first in the process;
#: Nova 34 does not, see tests.functional.
_RUNNER = """
import sys
from nova import monkey_patch
monkey_patch.patch()
from nova import version
if not version.version_string().startswith(sys.argv[1] + "."):
    sys.exit(f"Nova {version.version_string()} and not {sys.argv[1]}")
import testtools.run
testtools.run.main(sys.argv[1:], sys.stdout)
"""


def run(release: int, *tests: str) -> tuple[int, str]:
    """Run tests against a release and return exit code and output.

    :param release: its major version; it is installed if need be.
    :param tests: names of modules, classes or methods.
    :raises subprocess.SubprocessError: if it can't be installed or hangs.
    """
    path = [str(_ROOT)]
    native = release == INSTALLED
    if not native:
        path.insert(0, str(_installed(release)))
    done = subprocess.run(
        (sys.executable, "-W", "ignore", "-c", _RUNNER, str(release), *tests),
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "OS_NOVA_DISABLE_EVENTLET_PATCHING": str(native).lower(),
        },
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
    target = home / f"nova-{release}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            fresh = pathlib.Path(scratch, "nova")
            subprocess.run(
                (
                    *(sys.executable, "-m", "pip", "install", "--quiet"),
                    *("--no-deps", "--target", str(fresh)),
                    f"nova>={release},<{release + 1}",
                ),
                check=True,
                timeout=_INSTALL_S,
            )
            _rename(fresh, target)
    # What installing sriov-rt beside this release would have put there.
    shutil.copy(_ROOT / "nova" / "virt" / "sriov_rt.py", target / "nova/virt")
    return target


def _rename(fresh: pathlib.Path, target: pathlib.Path) -> None:
    try:
        fresh.rename(target)
    except OSError:
        # Another process was quicker.
        if not target.exists():
            raise
