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

"""A control plane with NFD at the command line.

For a Python with the package kubernetes, as in .tox/kubernetes.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.testbed import errors
from tests.testbed.kube.cluster import Kube
from tests.testbed.paths import Paths
from tests.testbed.progress import Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Do as the first argument says, and return the exit code.

    :param arguments: without the program's name; sys.argv by default.
    """
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.testbed.kube", description=__doc__
    )
    parser.add_argument(
        "verb",
        choices=("up", "down"),
        help="up: install and build what is missing, and start it anew; "
        "down: stop it",
    )
    verb = parser.parse_args(arguments).verb
    kube = Kube(Paths.from_environment())
    progress = Progress()
    try:
        if verb == "down":
            kube.stop()
            return 0
        kube.prepare(progress)
        with progress.step("etcd, the API server and NFD"):
            kube.start()
            kube.install_nfd()
        print(f"export KUBECONFIG={kube.kubeconfig}")
    except errors.TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
