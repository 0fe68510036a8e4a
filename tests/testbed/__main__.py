# SPDX-License-Identifier: Apache-2.0

"""Command line of the test cloud.

python3 -m tests.testbed up [--no-rt] [--lxc]
python3 -m tests.testbed status
python3 -m tests.testbed inside -- openstack server list
python3 -m tests.testbed exec rt-1 -- uname -a
python3 -m tests.testbed down
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys

from tests.testbed import container_host
from tests.testbed import errors
from tests.testbed import namespace
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import prepare
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed import realtime_host
from tests.testbed.progress import Progress
from tests.testbed.services import Services
from tests.testbed.steps import Step


def _up(world: namespace.Namespace, options: argparse.Namespace) -> int:
    place = world.place
    mark = place.run / "up"
    if world.init is not None and mark.exists():
        hosts = mark.read_text().splitlines()
        if set(_wanted(options)) <= set(hosts):
            print(f"testbed: {', '.join(hosts)} are up already")
            return 0
    Step.PREPARE.begin()
    progress = Progress()
    world.destroy()
    _clear(place)
    prepare.prepare(place, progress, realtime=options.realtime)
    world.create()
    command = ["python", "-m", "tests.testbed.bringup"]
    if not options.realtime:
        command.append("--no-rt")
    if options.containers:
        command.append("--lxc")
    if not options.direct:
        command.append("--no-direct")
    status = _inside(world, command)
    if status == 0:
        mark.write_text("\n".join(_wanted(options)))
        progress.say("the cloud is up")
    return status


def _wanted(options: argparse.Namespace) -> list[str]:
    hosts = [network.CONTROLLER]
    if options.realtime:
        hosts.append(network.REALTIME)
    if options.containers:
        hosts.append(network.CONTAINERS)
    if options.realtime and options.direct:
        hosts.append(f"direct ports on {network.REALTIME}")
    return hosts


def _clear(place: paths.Paths) -> None:
    """Remove what an earlier cloud left in its directories."""
    for directory in (place.run, place.etc, place.data, place.state / "vm"):
        shutil.rmtree(directory, ignore_errors=True)
    for path in place.log.glob("*"):
        # The test runner and the demonstration are writing to these logs.
        if path.name.startswith(("test-", "demo")):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _inside(world: namespace.Namespace, command: list[str]) -> int:
    return subprocess.run(
        (sys.executable, "-m", "tests.testbed", "inside", "--", *command),
        check=False,
    ).returncode


def _down(world: namespace.Namespace, options: argparse.Namespace) -> int:
    if options.unless_kept and os.environ.get("SRIOV_RT_KEEP"):
        return 0
    world.destroy()
    return 0


def _status(world: namespace.Namespace, options: argparse.Namespace) -> int:
    if not world.inside:
        world.enter((sys.executable, "-m", "tests.testbed", "status"))
    env = python_env.PythonEnv.in_cache(world.place.cache)
    found = Services(world.place, env).status()
    for host, services in found.items():
        for name, runs in services.items():
            print(f"{host:6} {name:24} {'runs' if runs else 'has ended'}")
    return 0 if all(all(each.values()) for each in found.values()) else 1


def _execute(world: namespace.Namespace, options: argparse.Namespace) -> int:
    if options.host == network.CONTROLLER:
        if world.inside:
            return subprocess.run(options.command, check=False).returncode
        world.enter(options.command)
    if options.host == network.CONTAINERS and not world.inside:
        world.enter((sys.executable, "-m", "tests.testbed", *sys.argv[1:]))
    env = python_env.PythonEnv.in_cache(world.place.cache)
    stdin = sys.stdin.buffer.read() if options.stdin else b""
    if options.host == network.CONTAINERS:
        containers = container_host.ContainerHost(world.place, env)
        sys.stdout.write(
            containers.run(
                *options.command, timeout=options.timeout, stdin=stdin
            )
        )
        return 0
    node = realtime_host.NODES[options.host]
    host = realtime_host.RealtimeHost(world.place, env, node)
    result = host.machine.run(
        options.command,
        timeout=options.timeout,
        check=False,
        environment={
            **programs.environment(world.place, env),
            "COLUMNS": str(shutil.get_terminal_size().columns),
        },
        stdin=stdin,
    )
    sys.stdout.buffer.write(result.stdout)
    sys.stderr.buffer.write(result.stderr)
    return result.status if result.status >= 0 else 128 - result.status


def _enter(world: namespace.Namespace, options: argparse.Namespace) -> int:
    world.enter(options.command)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.testbed",
        description="A real OpenStack cloud on this machine.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="bring the cloud up from nothing")
    up.add_argument(
        "--no-rt",
        dest="realtime",
        action="store_false",
        help="leave the virtual machine rt-1 out",
    )
    up.add_argument(
        "--lxc",
        dest="containers",
        action="store_true",
        help="add the host lxc-1 for containers",
    )
    up.add_argument(
        "--no-direct",
        dest="direct",
        action="store_false",
        help="leave neutron-sriov-nic-agent on rt-1 out, of direct ports",
    )
    up.set_defaults(act=_up)
    down = verbs.add_parser("down", help="end it; logs stay")
    down.add_argument(
        "--unless-kept",
        action="store_true",
        help="leave it where SRIOV_RT_KEEP is set: others use it next",
    )
    down.set_defaults(act=_down)
    status = verbs.add_parser("status", help="say which services run")
    status.set_defaults(act=_status)
    execute = verbs.add_parser("exec", help="run a program on a host")
    execute.add_argument("--timeout", type=float, default=300.0)
    execute.add_argument(
        "--stdin",
        action="store_true",
        help="hand it the standard input, once that has ended",
    )
    execute.add_argument(
        "host",
        choices=(
            network.CONTROLLER,
            *realtime_host.NODES,
            network.CONTAINERS,
        ),
    )
    execute.add_argument("command", nargs="+")
    execute.set_defaults(act=_execute)
    inside = verbs.add_parser(
        "inside", help="run a program in its namespaces, as its administrator"
    )
    inside.add_argument("command", nargs="+")
    inside.set_defaults(act=_enter)
    return parser


def main() -> int:
    """Run the command line, and return the exit status."""
    options = _parser().parse_args()
    if os.geteuid() != 0:
        print("testbed: namespaces and taps need root", file=sys.stderr)
        return 1
    world = namespace.Namespace(paths.Paths.from_environment())
    try:
        status: int = options.act(world, options)
    except errors.TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # Parts that are already up stay up until `down`.
        return 128 + signal.SIGINT
    return status


if __name__ == "__main__":
    sys.exit(main())
