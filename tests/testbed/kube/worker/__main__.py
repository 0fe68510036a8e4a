# SPDX-License-Identifier: Apache-2.0

"""Build a worker's image, and the programs of its control plane."""

import sys

from tests.testbed import errors
from tests.testbed import packages
from tests.testbed.kube import programs
from tests.testbed.kube.worker import image
from tests.testbed.paths import Paths
from tests.testbed.progress import Progress


def main() -> int:
    """Build what is missing; the exit status is returned."""
    place = Paths.from_environment()
    place.make()
    try:
        packages.install(("genisoimage",), place.log / "apt.log")
        programs.Programs.in_cache(place.cache).prepare(place.log, Progress())
        image.prepare(place, Progress())
    except errors.TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
