# SPDX-License-Identifier: Apache-2.0

"""Command line of a single virtual compute host.

python3 -m tests.testbed.rtvm up
python3 -m tests.testbed.rtvm exec -- uname -a
python3 -m tests.testbed.rtvm down
"""

import argparse
import sys

from tests.testbed import errors
from tests.testbed.paths import Paths
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import RtVm


def main() -> int:
    """Do what the command line says and return its exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.testbed.rtvm")
    parser.add_argument("--name", default="rt-1", help="the host's name")
    parser.add_argument(
        "--ordinary",
        action="store_true",
        help="Debian's ordinary kernel, nothing isolated",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="start it and wait until it is ready")
    execute = verbs.add_parser("exec", help="run a command in it")
    execute.add_argument("--timeout", type=float, default=300.0)
    execute.add_argument("command", nargs="+")
    verbs.add_parser("down", help="end it; nothing stays")
    options = parser.parse_args()
    machine = (
        Machine.ordinary(options.name, 2)
        if options.ordinary
        else Machine(name=options.name)
    )
    vm = RtVm(Paths.from_environment(), machine)
    try:
        return _do(vm, options)
    except errors.TestbedError as error:
        print(error, file=sys.stderr)
        return 1


def _do(vm: RtVm, options: argparse.Namespace) -> int:
    if options.verb == "up":
        progress = Progress()
        with progress.step("kernel, QEMU and initramfs"):
            vm.prepare()
        vm.start()
        vm.wait_ready(progress.say)
    elif options.verb == "down":
        vm.stop()
    else:
        result = vm.run(options.command, timeout=options.timeout, check=False)
        sys.stdout.buffer.write(result.stdout)
        sys.stderr.buffer.write(result.stderr)
        return result.status if result.status >= 0 else 128 - result.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
