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

"""The ``sriov-rt-agent`` command."""

import sys
from collections.abc import Sequence

from oslo_service import backend

from sriov_rt.cmd import faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        # Once it has begun, the agent takes SIGINT for itself.
        print("sriov-rt-agent: interrupted", file=sys.stderr)
        return faults.EXIT_INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    # Before the import: oslo.messaging imports oslo.service, which settles
    # for eventlet unless a backend is chosen by then.
    backend.init_backend(backend.BackendType.THREADING)
    from sriov_rt.agent import process

    return process.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
