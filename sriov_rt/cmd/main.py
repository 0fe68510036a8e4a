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
            # Here, for cliff takes longer to import than a hook to start.
            from sriov_rt.cmd import shell

            code = shell.main(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        return faults.report(error)
    return code


if __name__ == "__main__":
    sys.exit(main())
