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

"""The demonstration: a realtime instance, from its flavor to its threads.

python3 -m tests.testbed.demo [up]
python3 -m tests.testbed.demo down
"""

import argparse
import os
import signal
import subprocess
import sys

from tests.testbed import errors
from tests.testbed import namespace
from tests.testbed import paths


def _run(*arguments: str) -> int:
    return subprocess.run(
        (sys.executable, "-m", *arguments), check=False
    ).returncode


def _up() -> int:
    """Bring the cloud up if there is none, and show what it does."""
    return _run("tests.testbed", "up") or _run(
        *("tests.testbed", "inside", "--"),
        *("python", "-m", "tests.testbed.show"),
    )


def _down() -> int:
    world = namespace.Namespace(paths.Paths.from_environment())
    world.destroy()
    print(
        "demo: the cloud is down; no process, mount, namespace, interface "
        f"or control group of it is left. Its logs are in {world.place.log}"
    )
    return 0


def main() -> int:
    """Do what the command line says; the exit status is returned."""
    parser = argparse.ArgumentParser(prog="tools/demo")
    parser.add_argument(
        "verb",
        nargs="?",
        choices=("up", "down"),
        default="up",
        help="up (the default) shows the demonstration, down ends its cloud",
    )
    verb = parser.parse_args().verb
    if os.geteuid() != 0:
        print("demo: run it as root, best on a spare machine", file=sys.stderr)
        return 1
    try:
        return _down() if verb == "down" else _up()
    except errors.TestbedError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; `tools/demo down` clears up")
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
