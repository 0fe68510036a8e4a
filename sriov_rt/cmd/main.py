# SPDX-License-Identifier: Apache-2.0

"""The ``sriov-rt`` command."""

import sys
from collections.abc import Sequence

from sriov_rt.cmd import faults
from sriov_rt.cmd import runner


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    faults.print_anything()
    try:
        code = runner.main(arguments)
        if code is None:
            # Imported here: cliff's import takes longer than a hook may.
            from sriov_rt.cmd import shell

            code = shell.main(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        return faults.report(error)
    return code


if __name__ == "__main__":
    sys.exit(main())
