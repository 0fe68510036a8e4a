# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt onload``: profiles, injection, and whether it is in effect."""

import argparse
import dataclasses
import os
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.cmd import command
from sriov_rt.cmd.command import Result
from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.facts import Workload
from sriov_rt.host.root import Root
from sriov_rt.onload import instances
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload import status
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.settings import Settings
from sriov_rt.onload.status import Driver
from sriov_rt.onload.status import Effect
from sriov_rt.parse.text import printable

#: Exit code if the list has a profile that can't be used.
EXIT_REJECTED = 1


class ProfileList(command.Lister):
    """List the profiles that flavors may request.

    The exit code is 1 if one of them can't be used.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add where profiles and configuration are."""
        command.add_root(parser)
        command.add_config(parser, "onload")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the profiles."""
        settings = onload_settings.load(args.config_file)
        found = [
            _row(each, settings, args) for each in sorted(settings.profiles)
        ]
        rejected = any("problem" in each for each in found)
        none = "no profile is allowed; name some in [onload] profiles"
        return Result(
            columns=("Name", "State", "Default", "SHA256", "Problem"),
            shown=("Name", "State", "Problem"),
            rows=[
                (
                    each["name"],
                    "refused" if "problem" in each else "usable",
                    each["default"],
                    each.get("sha256", ""),
                    each.get("problem", ""),
                )
                for each in found
            ],
            document=found,
            before=() if found else (none,),
            code=EXIT_REJECTED if rejected else 0,
        )


def _row(
    name: str, settings: Settings, args: argparse.Namespace
) -> dict[str, object]:
    row: dict[str, object] = {
        "name": name,
        "default": name == settings.default_profile,
    }
    try:
        found = settings.profile(name, Root(args.root))
    except OnloadError as error:
        return {**row, "problem": str(error)}
    assert found is not None
    return {**row, "sha256": found.sha256}


class ProfileShow(command.ShowOne):
    """Show what a profile sets."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the profile, and where profiles and configuration are."""
        parser.add_argument(
            "name", metavar="NAME", help="the name of an allowed profile"
        )
        command.add_root(parser)
        command.add_config(parser, "onload")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the profile."""
        settings = onload_settings.load(args.config_file)
        found = settings.profile(args.name, Root(args.root))
        assert found is not None
        return command.one(
            (
                ("name", found.name),
                ("sha256", found.sha256),
                ("files", "\n".join(each.path for each in found.files)),
                *found.variables.items(),
            ),
            found.to_plain(),
        )


class Status(command.Lister):
    """Print which processes have Onload, and whether it is in effect."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the host to read."""
        command.add_root(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the processes."""
        root = Root(args.root)
        driver = status.driver(root)
        every = status.Processes(root)
        effects = list(status.all_of(every, driver))
        known = known_or(instances.containers(root), ())
        whose = instances.processes(root, known)
        pods = instances.pods(root, (each.process.pid for each in effects))
        owners = {**whose, **pods}
        workloads = instances.observe(root)
        document = {
            "driver": _driver(driver),
            "processes": [_process(each, whose, pods) for each in effects],
            "instances": None
            if isinstance(workloads, Unknown)
            else [dataclasses.asdict(each) for each in workloads],
            "unreadable": every.unreadable,
        }
        return Result(
            columns=("PID", "Instance", "Name", "State", "Library"),
            shown=("PID", "Instance", "State"),
            rows=[
                (
                    each.process.pid,
                    owners.get(each.process.pid, ""),
                    each.process.name,
                    each.sentence,
                    each.process.library or "",
                )
                for each in effects
            ],
            document=document,
            before=[_driver_line(driver)],
            after=list(_summary(effects, workloads, every.unreadable)),
        )


def _summary(
    effects: Sequence[Effect],
    workloads: Sequence[Workload] | Unknown,
    unreadable: int,
) -> Iterator[str]:
    if not effects:
        yield "no process has loaded or requested Onload"
    if isinstance(workloads, Unknown):
        yield f"instances: unknown ({printable(workloads.reason)})"
    else:
        yield from map(_state, workloads)
    if unreadable:
        noun = "process" if unreadable == 1 else "processes"
        # Root also needs CAP_SYS_PTRACE, which it lacks in a container.
        who = "run as root" if os.geteuid() else "give it CAP_SYS_PTRACE"
        yield f"{unreadable} {noun} could not be inspected; {who}"


def _driver_line(driver: Driver) -> str:
    if isinstance(driver.is_loaded, Unknown):
        return f"onload module: unknown ({driver.is_loaded.reason})"
    return f"onload module: {'loaded' if driver.is_loaded else 'none'}"


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


def _process(
    found: Effect, whose: Mapping[int, str], pods: Mapping[int, str]
) -> dict[str, Any]:
    process = found.process
    return {
        "pid": process.pid,
        "instance": whose.get(process.pid),
        "pod": pods.get(process.pid),
        "name": process.name,
        "state": found.state.value,
        "message": found.sentence,
        "library": process.library,
        "soname": process.soname,
        "stand_in": found.is_stand_in,
        "variables": dict(process.variables),
    }
