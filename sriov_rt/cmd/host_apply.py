# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt host apply``: carries out the fix plan and undoes it."""

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import host
from sriov_rt.cmd.command import Result
from sriov_rt.codec import known_or
from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.host import fix_plan
from sriov_rt.host import maintenance
from sriov_rt.host import readiness
from sriov_rt.host.fix_plan import FixPlan
from sriov_rt.host.readiness import Readiness
from sriov_rt.host.root import Root
from sriov_rt.labels.recorded import Recorded
from sriov_rt.parse.errors import ParseError
from sriov_rt.reason import Reason
from sriov_rt.request import words
from sriov_rt.tuning import apply
from sriov_rt.tuning import boot
from sriov_rt.tuning import records
from sriov_rt.tuning import settings
from sriov_rt.tuning.apply import Outcome
from sriov_rt.tuning.apply import Tuning
from sriov_rt.tuning.settings import Kind
from sriov_rt.tuning.settings import Setting

#: Exit code if a setting is left unchanged.
EXIT_LEFT = 1

#: Seconds between two attempts while a guest is in the way.
_PAUSE_S = 5.0

_MAX_WAIT_S = 7 * 86400

_COLUMNS = ("Setting", "When", "From", "To", "Result", "Why", "Lost")


class Apply(host.OfHost, command.Lister):
    """Apply the fix plan of 'host check' to this host, or undo it."""

    epilog = (
        "Exit code 1: a setting is left as it is, since a realtime guest is "
        "in its way, somebody has changed it since, or it is to be changed "
        "by hand. 130: Ctrl-C came; what was begun is done, and the results "
        "say what is not."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to change, and when."""
        parser.add_argument(
            "--now",
            action="store_true",
            help="only what the running kernel takes",
        )
        parser.add_argument(
            "--persist",
            action="store_true",
            help="only the files and the kernel command line that count from "
            "the next boot on",
        )
        parser.add_argument(
            "--undo",
            action="store_true",
            help="set back what was applied to what it was before",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="with --undo: what somebody has changed since as well",
        )
        parser.add_argument(
            "--wait",
            type=arguments.seconds(_MAX_WAIT_S),
            default=0.0,
            metavar="SECONDS",
            help="how long to wait for realtime guests that are in the way "
            "(default: %(default)g)",
        )
        host.add_kernel(parser)
        command.add_dry_run(parser, "what would be changed, and what not")
        super().configure(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Carry it out, and return the result for each setting."""
        if args.force and not args.undo:
            raise ParseError("--force", "", "it is for --undo")
        observed, placed_by_nova = host.observe(args)
        facts, root = observed.facts, Root(args.root)
        found = _judged(args, observed, placed_by_nova)
        plan = fix_plan.make(
            facts,
            found.must,
            placed_by_nova=placed_by_nova,
            tuned=fix_plan.tuned_of(root),
        )
        interrupt = faults.Interrupt()
        tuning = Tuning(
            apply.Host(root),
            plan.dedicated | known_or(facts.cpus.isolated, CpuSet()),
            faults.progress(is_quiet=self.caller.is_quiet),
            interrupt.came,
        )
        if args.undo:
            return self._undo(args, facts, tuning, root, interrupt)
        return self._apply(args, facts, found, plan, tuning, root, interrupt)

    def _apply(
        self,
        args: argparse.Namespace,
        facts: HostFacts,
        found: Readiness,
        plan: FixPlan,
        tuning: Tuning,
        root: Root,
        interrupt: faults.Interrupt,
    ) -> Result:
        kinds = _kinds(args)
        chosen: list[Setting] = []
        by_hand = [*plan.by_hand]
        if Kind.KERNEL in kinds:
            chosen += settings.of_kernel(facts, plan, root)
        codes = {x.code for x in found.must} & fix_plan.PLANNED
        codes |= {x.code for x in found.should} & fix_plan.BY_COMMAND_LINE
        if plan.nova:
            codes -= fix_plan.BY_NOVA
        if Kind.FILE in kinds:
            by_hand = [*boot.by_hand(plan, root)]
            chosen += boot.of_disk(plan, root)
            for each in boot.of_loader(facts, plan, root):
                if isinstance(each, Setting):
                    chosen.append(each)
                else:
                    by_hand.append(each)
                    codes -= fix_plan.BY_COMMAND_LINE
        # The hold is there for this very change.
        by_hand = [x for x in by_hand if x.code != "host_on_hold"]
        if args.dry_run:
            outcomes = [*tuning.apply(chosen, dry=True)]
        else:
            for setting in chosen:
                if setting.lost:
                    faults.say(
                        f"{setting.path}: cannot be undone: {setting.lost}"
                    )
            outcomes = _patiently(
                lambda left, done: tuning.apply(
                    [x for x in chosen if left is None or x.path in left],
                    codes,
                    done=done,
                ),
                args.wait,
                interrupt,
            )
        owed = any(x.kind is Kind.PROGRAM for x in outcomes)
        if not args.dry_run:
            _keep_reasons(args, tuning, codes, outcomes, interrupt)
            owed = maintenance.boot_owed(root) is not None
        return _result(args, facts, outcomes, by_hand, interrupt, owed=owed)

    def _undo(
        self,
        args: argparse.Namespace,
        facts: HostFacts,
        tuning: Tuning,
        root: Root,
        interrupt: faults.Interrupt,
    ) -> Result:
        kinds, now = _kinds(args), maintenance.boot_of(root)
        # The running kernel was booted with these settings.
        owed = any(
            each.kind in kinds and each.is_booted(now)
            for each in records.Records(root).read().entries
        )
        if args.dry_run:
            outcomes = [*tuning.undo(kinds, force=args.force, dry=True)]
        else:
            outcomes = _patiently(
                lambda left, _done: tuning.undo(
                    kinds, only=left, force=args.force
                ),
                args.wait,
                interrupt,
            )
        return _result(args, facts, outcomes, (), interrupt, owed=owed)


def _judged(
    args: argparse.Namespace, observed: Recorded, placed_by_nova: bool
) -> Readiness:
    return readiness.judge(
        decisive(observed.facts),
        placed_by_nova=placed_by_nova,
        any_kernel=args.kernel == words.Kernel.ANY,
        further=observed.reasons,
    )


def _keep_reasons(
    args: argparse.Namespace,
    tuning: Tuning,
    codes: Collection[str],
    outcomes: Iterable[Outcome],
    interrupt: faults.Interrupt,
) -> None:
    """Keep the Reasons that the next boot still ends.

    :param codes: those that it ends with all settings.
    """
    programs = [x.result for x in outcomes if x.kind is Kind.PROGRAM]
    if not apply.LEFT.isdisjoint(programs):
        codes = {*codes} - fix_plan.BY_COMMAND_LINE
    if not interrupt.came():
        with interrupt:
            after = _judged(args, *host.observe(args))
            left = {x.code for x in (*after.must, *after.should)}
            codes = left.intersection(codes)
    if not interrupt.is_at_once:
        tuning.keep_reasons(codes)


def _kinds(args: argparse.Namespace) -> Collection[Kind]:
    if args.now == args.persist:
        return frozenset(Kind)
    return {Kind.KERNEL} if args.now else {Kind.FILE, Kind.PROGRAM}


def _patiently(
    change: Callable[[list[str] | None, list[str]], Iterable[Outcome]],
    wait_s: float,
    interrupt: faults.Interrupt,
) -> list[Outcome]:
    """Repeat a change while guests are in its way, and return its result.

    :param change: takes the settings that are left, None for all, and those
        that are done.
    :param interrupt: ends the wait, and the change between two settings.
    """
    end = time.monotonic() + wait_s
    found: dict[str, Outcome] = {}
    left: list[str] | None = None

    def paths(result: apply.Result) -> list[str]:
        return [x.path for x in found.values() if x.result is result]

    # A second Ctrl-C ends a change that goes on; the record says so.
    with contextlib.suppress(KeyboardInterrupt), interrupt:
        while not interrupt.came():
            # Another command does not end the wait.
            ends = () if left is None else (records.TuningRuns,)
            try:
                with contextlib.suppress(*ends):
                    for each in change(left, paths(apply.Result.DONE)):
                        found[each.path] = each
            except apply.UndoneMeanwhile as error:
                for path in error.paths:
                    found[path] = dataclasses.replace(
                        found[path],
                        result=apply.Result.CHANGED,
                        why="another command has undone it meanwhile",
                    )
                break
            left = paths(apply.Result.WAITS)
            remaining = end - time.monotonic()
            if not left or remaining <= 0:
                break
            interrupt.sleep(min(_PAUSE_S, remaining))
    return list(found.values())


def _result(
    args: argparse.Namespace,
    facts: HostFacts,
    outcomes: Sequence[Outcome],
    by_hand: Sequence[Reason],
    interrupt: faults.Interrupt,
    *,
    owed: bool,
) -> Result:
    lines = [each.line() for each in outcomes]
    lines += [f"by hand: {each.code}: {each.message}" for each in by_hand]
    if owed:
        lines.append("boot owed: reboot this host once its guests are gone")
    is_left = by_hand or any(x.result in apply.LEFT for x in outcomes)
    code = EXIT_LEFT if is_left else 0
    if interrupt.came():
        code = faults.EXIT_INTERRUPTED
        undo = "'sriov-rt host apply --undo' "
        faults.say(
            f"interrupted; {undo}goes on with it"
            if args.undo
            else "interrupted; run it again to go on with what is left; "
            f"{undo}undoes what is done"
        )
    return Result(
        columns=_COLUMNS,
        rows=[
            (x.path, x.when, x.before, x.value, x.result, x.why, x.lost)
            for x in outcomes
        ],
        document={
            "host": facts.host,
            "settings": [each.to_plain() for each in outcomes],
            "by_hand": [each.to_plain() for each in by_hand],
            "boot_owed": owed,
            "interrupted": interrupt.came(),
        },
        text=lines or ["nothing to do"],
        code=code,
    )
