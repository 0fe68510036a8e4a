# SPDX-License-Identifier: Apache-2.0

"""Runs inside: plugs and unplugs that die, and the recovery after each.

Each attempt is a process of its own that ends itself, as SIGKILL would, at
the Nth call of the edges or write to a record or to sysfs, such as between
the two that take a VF from its driver and bind it again; N grows until the
work is done before. What the kernel has afterwards is compared with what it
had. With ``--every 4 --first 1`` N is 1, 5, 9 and so on.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from sriov_rt.cmd import main as commands
from sriov_rt.cmd import vif_restore
from sriov_rt.kernel.links import Links
from sriov_rt.kernel.tc import Limits
from sriov_rt.nic import sysfs
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import plugger as pluggers
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.plugger import Plugger
from sriov_rt.vif.records import Records
from sriov_rt.vif.restore import Restoring

#: The default of ``[vif] records``.
RECORDS = "/run/sriov-rt/vif"
#: More calls than any plug makes.
MANY = 200
#: Exit status of a process that died as it was to.
DIED = 77
#: How often a restore is run until its PF answers, and seconds in between.
TRIES = 10
PAUSE = 10.0
#: The longest that a plug is let run before it is killed, in seconds.
LONGEST = 1.5

#: The verbs that change something.
_LINKS = (
    *("create", "delete", "move", "configure", "address", "limit"),
    "announce",
)
_RECORDS = ("begin", "step", "put", "end")
#: A VF's settings and its interface's.
_KERNEL = ("write", "set_netdev", "rename")
#: Its driver's steps: unbind, override, bind.
_SYSFS = ("write",)


class Countdown:
    """Ends the process at a call.

    :param calls: how many are let pass.
    """

    def __init__(self, calls: int) -> None:
        self.left = calls

    def wrap(self, owner: object, name: str) -> None:
        """Count the calls of a class's method or a module's function.

        After one is before the next: nothing is changed in between.
        """
        original = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            if not self.left:
                os._exit(DIED)
            self.left -= 1
            return original(*args, **named)

        setattr(owner, name, counted)


def port(kind: str, namespace: str, network: str) -> Plug:
    """Return a port that takes every step."""
    whole = kind == Kind.VF
    return validation.checked(
        Plug(
            port="5a1b8d5e-0000-4000-8000-0000000000d1",
            owner="vm-test",
            kind=Kind(kind),
            mode={Kind.MACVLAN: "bridge", Kind.IPVLAN: "l2"}.get(Kind(kind)),
            physical_network=network,
            namespace=namespace,
            name="p0",
            mac="52:54:00:aa:00:09" if whole else None,
            vlan=100,
            addresses=("192.0.2.1/24",),
            limits=Limits(4000, 8000),
        )
    )


def child(work: Callable[[Plugger], object], calls: int) -> int:
    """Return the pid of a process that does work and may die in it."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        countdown = Countdown(calls)
        if calls >= 0:
            edges: dict[object, tuple[str, ...]] = {
                Links: _LINKS,
                Records: _RECORDS,
                Kernel: _KERNEL,
                sysfs: _SYSFS,
            }
            for owner, names in edges.items():
                for name in names:
                    countdown.wrap(owner, name)
        work(pluggers.configured())
        status = 0
    finally:
        if status:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)


def wait(pid: int) -> int:
    """Return the exit status of a child, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def state(pf: str, namespace: str) -> dict[str, Any]:
    """Return what must be as before: links, VFs, and the records."""
    plugger = pluggers.configured()
    links = Links().all(everywhere=True)
    return {
        "ports": [dataclasses.asdict(each) for each in plugger.show()],
        "here": sorted(
            (each.name, each.up, each.alias)
            for each in links
            if not each.namespace
        ),
        "there": [each.name for each in links if each.namespace == namespace],
        "vfs": [str(each.settings) for each in Vfs.of_host().list(pf)],
        "records": Records(pathlib.Path(RECORDS)).ports(),
    }


def settle(before: dict[str, Any], args: argparse.Namespace) -> list[str]:
    """Recover in a new process, and return what is not as before."""
    failed = wait(child(lambda plugger: plugger.recover(), -1))
    after = state(args.pf, args.namespace)
    if after["ports"]:
        # It died after its record had said that the port was done.
        wanted = port("vf", args.namespace, args.network).port
        failed |= wait(child(lambda plugger: plugger.unplug(wanted), -1))
        after = state(args.pf, args.namespace)
    found = [
        f"{part}: {before[part]} before, {after[part]} after"
        for part in before
        if before[part] != after[part]
    ]
    return [*found, *(["the recovery failed"] if failed else [])]


def at_each_step(
    args: argparse.Namespace, kind: str, *, unplug: bool
) -> dict[str, Any]:
    """Die at each call of a plug or an unplug."""
    want = port(kind, args.namespace, args.network)
    before = state(args.pf, args.namespace)
    problems: dict[int, list[str]] = {}
    for number in range(args.first, MANY, args.every):
        if unplug:
            wait(child(lambda plugger: plugger.plug(want), -1))
        done = wait(
            child(
                (lambda plugger: plugger.unplug(want.port))
                if unplug
                else (lambda plugger: plugger.plug(want)),
                number,
            )
        )
        if found := settle(before, args):
            problems[number] = found
        if done != DIED:
            return {"calls": number, "end": done, "problems": problems}
    raise SystemExit(f"{kind} never ends")


def at_random(args: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Kill plugs at times that nobody chose."""
    want = port(kind, args.namespace, args.network)
    before = state(args.pf, args.namespace)
    chance = random.Random(args.seed)
    problems: dict[int, list[str]] = {}
    died = 0
    for number in range(args.times):
        pid = child(lambda plugger: plugger.plug(want), -1)
        time.sleep(chance.uniform(0, LONGEST))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        died += wait(pid) == -signal.SIGKILL
        if found := settle(before, args):
            problems[number] = found
    return {"died": died, "problems": problems}


def restore(plugger: Plugger) -> None:
    """Plug lost ports again; fail if one is left."""
    if found := Restoring(plugger, vif_restore.container).run().left:
        raise SystemExit(f"left: {found}")


def restores(args: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Die at each call of a restore, after all VFs were destroyed."""
    want = port(kind, args.namespace, args.network)
    wait(child(lambda plugger: plugger.plug(want), -1))
    (before,) = pluggers.configured().show()
    numvfs = pathlib.Path(f"/sys/class/net/{args.pf}/device/sriov_numvfs")
    problems: dict[int, list[str]] = {}
    for number in range(args.first, MANY, args.every):
        numvfs.write_text("0")
        wait(child(lambda _: commands.main(["vf", "provision"]), -1))
        done = wait(child(restore, number))
        for _ in range(TRIES):
            if not wait(child(restore, -1)):
                break
            time.sleep(PAUSE)
        (after,) = pluggers.configured().show()
        # It may be on another VF; an ipvlan has the MAC of its own.
        like = dataclasses.replace(after, vf=before.vf, parent=before.parent)
        if kind != Kind.VF:
            like = dataclasses.replace(like, mac=before.mac)
        if like != before:
            problems[number] = [f"{before} before, {after} after"]
        if done != DIED:
            wait(child(lambda plugger: plugger.unplug(want.port), -1))
            return {"calls": number, "end": done, "problems": problems}
    raise SystemExit(f"{kind} never ends")


def main() -> None:
    """Print what came of it, as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "what", choices=("plug", "unplug", "random", "restore")
    )
    parser.add_argument("kind")
    parser.add_argument("--pf", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--network", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.what == "random":
        found = at_random(args, args.kind)
    elif args.what == "restore":
        found = restores(args, args.kind)
    else:
        found = at_each_step(args, args.kind, unplug=args.what == "unplug")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
