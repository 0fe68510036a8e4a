# SPDX-License-Identifier: Apache-2.0

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
