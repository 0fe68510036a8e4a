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


"""``sriov-rt onload status``: is Onload in effect on this host."""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from sriov_rt.codec import Unknown
from sriov_rt.facts import Workload
from sriov_rt.host.root import Root
from sriov_rt.host.table import printable
from sriov_rt.onload import effect
from sriov_rt.onload import instances
from sriov_rt.onload import processes
from sriov_rt.onload import workloads
from sriov_rt.onload.effect import Driver
from sriov_rt.onload.effect import Effect

#: As long as the UUID of an instance.
_WIDTH = 36


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``status``."""
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="read the host whose / is DIR (default: this one)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    root = Root(args.root)
    driver = processes.driver(root)
    every = processes.Processes(root)
    effects = list(effect.all_of(every, driver))
    containers = instances.observe(root)
    known = () if isinstance(containers, Unknown) else containers
    whose = instances.processes(root, known)
    asked = workloads.observe(root)
    if args.json:
        plain = {
            "driver": _driver(driver),
            "processes": [_plain(each, whose) for each in effects],
            "instances": None
            if isinstance(asked, Unknown)
            else [dataclasses.asdict(each) for each in asked],
            "unreadable": every.unreadable,
        }
        print(json.dumps(plain, indent=2))
        return 0
    print(_told(driver))
    for each in effects:
        print(_line(each, whose))
    if not effects:
        print("no process has Onload's library, or was to have it")
    if isinstance(asked, Unknown):
        print(f"instances: unknown ({printable(asked.reason)})")
    else:
        print("".join(f"{_state(each)}\n" for each in asked), end="")
    if every.unreadable:
        print(
            f"{every.unreadable} processes could not be looked at; run it as "
            "root to see them"
        )
    return 0


def _told(driver: Driver) -> str:
    if isinstance(driver.is_loaded, Unknown):
        return f"onload module: unknown ({driver.is_loaded.reason})"
    return f"onload module: {'loaded' if driver.is_loaded else 'none'}"


def _line(found: Effect, whose: Mapping[int, str]) -> str:
    process = found.process
    where = f"  {printable(process.library)}" if process.library else ""
    instance = whose.get(process.pid, "-")
    return (
        f"{process.pid:>8}  {instance:{_WIDTH}}  "
        f"{printable(process.name):16}  {found.sentence}{where}"
    )


def _state(found: Workload) -> str:
    why = f": {printable(found.why)}" if found.why else ""
    return f"instance={found.instance} {found.state}{why}"


def _driver(driver: Driver) -> dict[str, Any]:
    loaded, stacks = driver.is_loaded, driver.stacks
    return {
        "loaded": None if isinstance(loaded, Unknown) else loaded,
        "stacks": None
        if isinstance(stacks, Unknown)
        else sum(stacks.values()),
    }


def _plain(found: Effect, whose: Mapping[int, str]) -> dict[str, Any]:
    process = found.process
    return {
        "pid": process.pid,
        "instance": whose.get(process.pid),
        "name": process.name,
        "state": found.state.value,
        "message": found.sentence,
        "library": process.library,
        "soname": process.soname,
        "stand_in": found.is_stand_in,
        "variables": dict(process.variables),
    }
