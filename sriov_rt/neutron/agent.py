# SPDX-License-Identifier: Apache-2.0

"""The ``sriov-rt-neutron-agent`` command."""

import sys
from collections.abc import Sequence

from sriov_rt.service import threads

#: Exit code if neutron is not installed, the same as for an unusable
#: configuration: systemd does not restart the agent.
EXIT_MISSING = 2

#: Exit code after Ctrl-C during the start: 128 plus the number of SIGINT.
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        # After its start, the agent handles SIGINT itself.
        print("sriov-rt-neutron-agent: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _run(arguments: Sequence[str]) -> int:
    threads.choose()
    try:
        from sriov_rt.neutron import process
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] not in ("neutron", "neutron_lib"):
            raise
        print(
            f"sriov-rt-neutron-agent: error: {missing} is not installed; "
            "install neutron in the environment of sriov-rt, or run "
            "'pip install sriov-rt[neutron]'",
            file=sys.stderr,
        )
        return EXIT_MISSING
    return process.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
