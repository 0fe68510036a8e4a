# SPDX-License-Identifier: Apache-2.0

"""The demonstration: a realtime instance, from its flavor to its threads.

python3 -m tests.testbed.demo [up]
python3 -m tests.testbed.demo inside -- openstack server list
python3 -m tests.testbed.demo on rt-1 -- sriov-rt vif list
python3 -m tests.testbed.demo down
"""

import argparse
import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO

from tests.testbed import errors
from tests.testbed import namespace
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed import steps
from tests.testbed.screen import Screen
from tests.testbed.screen import clock
from tests.testbed.steps import Step

_UP = ("-m", "tests.testbed", "up", "--no-direct")
_SHOW = (
    *("-m", "tests.testbed", "inside", "--"),
    *("python", "-m", "tests.testbed.show"),
)
#: File with the final output, in the log directory.
RESULT = "demo-result.txt"
#: Commands that work as they are printed.
TRY = (
    "tools/demo inside -- openstack realtime host list",
    "tools/demo inside -- sriov-rt explain --flavor rt.bare",
    "tools/demo inside -- openstack port create --network physnet2 fast",
    "tools/demo inside -- openstack server create --flavor rt.small \\\n"
    "      --image guest --port fast --wait mine",
    "tools/demo on rt-1 -- sriov-rt vif list",
)
_DOWN = "tools/demo down"
#: Seconds for a part to end by itself after Ctrl-C, to delete its servers.
_GRACE = 60.0
_TICK = 0.5
#: Lines of the log that are shown after a failure.
_LINES = 12


class _Failed(errors.TestbedError):
    """A part of the demonstration has failed, and its log says why."""


def _part(command: Sequence[str], screen: Screen, log: BinaryIO) -> None:
    """Run a program of Python, which prints the steps that it begins.

    It has no terminal, so that none of its programs writes there or prompts
    for input.

    :param command: the arguments of Python.
    :param screen: shows its steps.
    :param log: receives its other output.
    :raises _Failed: when it fails.
    """
    with subprocess.Popen(
        (sys.executable, *command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    ) as child:
        try:
            _follow(child, screen, log)
            status = child.wait()
        except BaseException:
            _end(child)
            raise
    if status:
        screen.end("failed after")
        raise _Failed


def _follow(
    child: subprocess.Popen[bytes], screen: Screen, log: BinaryIO
) -> None:
    assert child.stdout is not None
    source = child.stdout.fileno()
    rest = b""
    while True:
        if not select.select([source], (), (), _TICK)[0]:
            screen.tick()
            continue
        part = os.read(source, 65536)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")
            step, note = steps.of_title(text), steps.of_note(text)
            if step is not None:
                screen.begin(step)
            elif note is not None:
                screen.note(note)
            log.write(line + b"\n")
            log.flush()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Stop a part and all that it has started, as Ctrl-C does.

    nsenter(1) ends before the program that it runs, which cleans up first, so
    wait for the end of the output.
    """
    for number, patience in ((signal.SIGINT, _GRACE), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        try:
            if _ends(child, time.monotonic() + patience):
                return
        except KeyboardInterrupt:
            # A user who presses it twice doesn't want to wait.
            continue


def _ends(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Return whether a part's output comes to its end in time."""
    assert child.stdout is not None
    source = child.stdout.fileno()
    while (left := deadline - time.monotonic()) > 0:
        ready = select.select([source], (), (), left)[0]
        if ready and not os.read(source, 65536):
            return True
    return False


def _up(world: namespace.Namespace) -> int:
    """Bring the cloud up if it isn't up, and show the demonstration."""
    place = world.place
    place.make()
    env = python_env.PythonEnv.in_cache(place.cache)
    first = 0 if env.complete else steps.FIRST_SECONDS
    logs = place.log / "demo.log"
    up = world.init is not None and (place.run / "up").exists()
    _introduce(logs, first, up=up)
    (place.log / RESULT).unlink(missing_ok=True)
    screen = Screen(sys.stdout, first=first)
    with logs.open("wb") as log:
        try:
            _part(_UP, screen, log)
        except KeyboardInterrupt:
            screen.end("interrupted after")
            world.destroy()
            print(
                "\nInterrupted. What was up of the cloud is down again; "
                "downloads are kept.\n`tools/demo` starts again."
            )
            return 128 + signal.SIGINT
        except _Failed:
            return _explain_failure(logs)
        try:
            _part(_SHOW, screen, log)
        except KeyboardInterrupt:
            screen.end("interrupted after")
            print(
                "\nInterrupted. The cloud stays up: `tools/demo` shows it "
                f"again,\n`{_DOWN}` takes it down."
            )
            return 128 + signal.SIGINT
        except _Failed:
            return _explain_failure(logs)
    screen.end()
    print(f"{clock(screen.elapsed):>5}  done")
    _conclude((place.log / RESULT).read_text())
    return 0


def _introduce(log: pathlib.Path, first: int, *, up: bool) -> None:
    if up:
        took = f"{clock(steps.total_seconds(Step.EXPLAIN))} on two idle cores"
        more = "; the cloud is up already."
    else:
        took = f"{clock(steps.total_seconds() + first)} on two idle cores"
        more = "."
        if first:
            more = f", of which {clock(first)} to download and\nbuild, once."
    print(
        "An OpenStack cloud with a realtime host, on this machine, and a "
        f"realtime\nserver on it. About {took}{more}\nDetails: {log}\n",
        flush=True,
    )


def _explain_failure(log: pathlib.Path) -> int:
    lines = errors.tail(log, 60).splitlines()
    said = [
        number
        for number, line in enumerate(lines)
        if line.startswith(("testbed: ", "demo: "))
    ]
    # After the sentence comes the end of another log.
    first = said[-1] if said else max(len(lines) - _LINES, 0)
    text = "\n".join(lines[first : first + _LINES])
    print(f"\nIt failed; from {log}:\n\n{text}\n")
    print(f"`tools/demo` tries again, `{_DOWN}` takes the cloud down.")
    return 1


def _conclude(result: str) -> None:
    print(f"\n{result}\nThe cloud is up. Try:\n")
    for command in TRY:
        print(f"  {command}")
    print(
        f"\nTake it down, with all that runs in it:\n\n  {_DOWN}", flush=True
    )


def _on(world: namespace.Namespace, host: str, command: Sequence[str]) -> int:
    if world.init is None:
        raise errors.TestbedError("no cloud is up; `tools/demo` starts one")
    execute = ("-m", "tests.testbed", "exec", host, "--")
    return subprocess.run(
        (sys.executable, *execute, *command), check=False
    ).returncode


def _down(world: namespace.Namespace) -> int:
    world.destroy()
    print(
        "The cloud is down; no process, mount, namespace, interface or "
        f"control group of\nit is left. Its logs are in {world.place.log}"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/demo",
        description="Show sriov-rt at work in a real cloud.",
    )
    verbs = parser.add_subparsers(dest="verb")
    verbs.add_parser("up", help="show the demonstration (the default)")
    inside = verbs.add_parser(
        "inside", help="run a program in the cloud, as its administrator"
    )
    inside.add_argument(
        "command",
        nargs="*",
        default=["bash"],
        help="the program and its arguments, after --; a shell by default",
    )
    on = verbs.add_parser("on", help="run a program on a host, as root")
    on.add_argument("host", choices=(network.REALTIME,))
    on.add_argument(
        "command", nargs="+", help="the program and its arguments, after --"
    )
    verbs.add_parser("down", help="take the cloud down")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    options = _parser().parse_args(arguments)
    if os.geteuid() != 0:
        print("demo: run it as root, best on a spare machine", file=sys.stderr)
        return 1
    # Closing the terminal interrupts, too.
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    world = namespace.Namespace(paths.Paths.from_environment())
    try:
        if options.verb == "inside":
            world.enter(options.command)
        if options.verb == "on":
            return _on(world, options.host, options.command)
        return _down(world) if options.verb == "down" else _up(world)
    except errors.TestbedError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"demo: interrupted; `{_DOWN}` takes the cloud down")
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
