# SPDX-License-Identifier: Apache-2.0

"""Runs inside: 'host apply' and its undo that die at each change of a host.

Each attempt is a process of its own that ends itself, as SIGKILL would, before
the Nth change, in the middle of it or after it; N grows until the work is done
before. An undo follows, and what the kernel and the disk have is compared with
what they had. Prints how often each was killed, as JSON.
"""

import contextlib
import itertools
import json
import os
import pathlib
import stat
import sys

from sriov_rt.cmd import host as commands
from sriov_rt.facts import decisive
from sriov_rt.host import fix_plan
from sriov_rt.host import readiness
from sriov_rt.host.root import Root
from sriov_rt.tuning import apply
from sriov_rt.tuning import boot
from sriov_rt.tuning import settings
from sriov_rt.tuning.apply import Result
from sriov_rt.tuning.apply import Tuning
from sriov_rt.tuning.settings import Kind
from sriov_rt.tuning.settings import Setting
from tests.testbed import death

#: Where files for good are written.
_DIRECTORIES = ("/etc/sysctl.d", "/etc/tmpfiles.d", "/etc/tuned")


class Host(apply.Host):
    """This host; the kernel takes a value in one call."""

    def write(self, path: str, text: str) -> None:
        """Write a file of the kernel, and die before or after it."""
        death.point()
        with death.quiet():
            super().write(path, text)
        death.point()


class Killer:
    """A host whose plan is applied, undone and killed."""

    def __init__(self) -> None:
        root = Root("/")
        observed, _ = commands.observed(root)
        facts = observed.facts
        must = readiness.judge(decisive(facts), placed_by_nova=False).must
        plan = fix_plan.make(
            facts, must, placed_by_nova=False, tuned=fix_plan.tuned_of(root)
        )
        self._cpus = plan.dedicated
        self._settings: list[Setting] = [
            *settings.of_kernel(facts, plan, root),
            *boot.of_disk(plan, root),
        ]
        self.before = self.snapshot()

    def snapshot(self) -> dict[str, object]:
        """Return what the kernel and the disk have."""
        found: dict[str, object] = {}
        paths = [pathlib.Path(each.path) for each in self._settings]
        for each in _DIRECTORIES:
            paths += [pathlib.Path(each), *pathlib.Path(each).rglob("*")]
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                mode = path.lstat().st_mode
                data = path.read_bytes() if stat.S_ISREG(mode) else b""
                found[str(path)] = mode, data
        return found

    def _tuning(self) -> Tuning:
        return Tuning(Host(Root("/")), self._cpus, lambda _text: None)

    def apply(self) -> None:
        """Apply all of it."""
        found = {each.result for each in self._tuning().apply(self._settings)}
        if found - {Result.DONE}:
            raise AssertionError(found)

    def undo(self) -> None:
        """Undo all of it."""
        found = {each.result for each in self._tuning().undo(set(Kind))}
        if found - {Result.UNDONE}:
            raise AssertionError(found)

    def check(self, what: str, at: int) -> None:
        """Undo it, and compare."""
        self.undo()
        found = self.snapshot()
        if found != self.before:
            differ = {
                x: (self.before.get(x), found.get(x))
                for x in self.before.keys() | found.keys()
                if self.before.get(x) != found.get(x)
            }
            raise AssertionError(f"{what} killed at {at}: {differ}")

    def run(self) -> dict[str, int]:
        """Return how often an apply was killed, and how often an undo."""
        found = {}
        for what in ("apply", "undo"):
            for at in itertools.count():
                if what == "undo":
                    self.apply()
                was_killed = death.killed(getattr(self, what), at)
                self.check(what, at)
                if not was_killed:
                    break
            found[what] = at
        found["settings"] = len(self._settings)
        return found


def main() -> int:
    """Run it; the exit code is returned."""
    # A child that fails says why.
    sys.stdout.flush()
    print(json.dumps(Killer().run()))
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
