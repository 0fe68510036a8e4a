# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt host``: facts of this host, and what it lacks."""

import argparse
import contextlib
import logging
import pathlib
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from sriov_rt import codec
from sriov_rt import exceptions
from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd.command import Result
from sriov_rt.cmd.command import one
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.host import archive
from sriov_rt.host import compute
from sriov_rt.host import fix_plan
from sriov_rt.host import maintenance
from sriov_rt.host import readiness
from sriov_rt.host import table
from sriov_rt.host.observer import Observer
from sriov_rt.host.observer import load_sources
from sriov_rt.host.occupancy import Occupancy
from sriov_rt.host.readiness import Readiness
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.labels import own
from sriov_rt.labels import recorded
from sriov_rt.labels.recorded import Recorded
from sriov_rt.parse import duration
from sriov_rt.parse.text import printable
from sriov_rt.reason import Reason
from sriov_rt.request import words
from sriov_rt.tuning import records

#: The mode that also lists NICs.
ONLOAD = "onload"

#: The name of a host that does not say its own.
UNNAMED = "unknown"

#: Remedy for a problem that 'host apply' has solved for the next boot.
_PLANNED = "planned, and a boot is owed: reboot the host"

_KILLED = (
    "'sriov-rt host apply' was killed; run it again, or with --undo, to "
    "finish or undo what it began"
)

#: Exit code of a check that found problems.
EXIT_NOT_READY = 1


class OfHost(command.Command):
    """A command that reads a host."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the host to read."""
        command.add_root(parser)
        parser.add_argument(
            "--nova-config",
            action="append",
            metavar="FILE",
            help="a configuration file of nova-compute, below the root; may "
            "be repeated (default: those of [agent] nova_config_files in "
            f"sriov-rt.conf, or else {', '.join(compute.FILES)})",
        )


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add ``--kernel``."""
    parser.add_argument(
        "--kernel",
        choices=tuple(str(each) for each in words.Kernel),
        default=str(words.Kernel.PREEMPT_RT),
        help="the sriov_rt:kernel of the flavors to serve; with 'any' a "
        "kernel that is not PREEMPT_RT is ready too (default: %(default)s)",
    )


class Show(OfHost, command.ShowOne):
    """Show the facts of this host, or why they are unknown."""

    def run(self, args: argparse.Namespace) -> Result:
        """Return the facts."""
        found, _ = observe(args)
        return one(
            table.rows(found.facts, found.ages_s),
            found.facts.to_plain(),
            after=table.occupancy(found.facts),
        )


class Check(OfHost, command.Lister):
    """List the problems that keep this host from being realtime."""

    epilog = (
        "Exit codes: 0 the host is ready, 1 it is not, 2 it could not be read."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to check for."""
        parser.add_argument(
            "--mode",
            choices=tuple(readiness.MODES),
            help="also check what this way to give guests NICs requires",
        )
        add_kernel(parser)
        parser.add_argument(
            "--fix-plan",
            action="store_true",
            help="print the kernel command line, the sysctls and the tuned "
            "profile that make the host ready; changes nothing",
        )
        parser.add_argument(
            "--sos",
            type=pathlib.Path,
            metavar="ARCHIVE",
            help="read the host of a sosreport, of its directory or of a "
            "must-gather instead; what that does not have is unknown",
        )
        super().configure(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return what is in the way."""
        if args.sos is None:
            found = observe(args)
            return self._check(args, Root(args.root), *found)
        with contextlib.closing(archive.hosts(args.sos)) as hosts:
            one_host = next(hosts)
            result = Result((), (), None)
            if isinstance(one_host, archive.Archive):
                # An archive's files are removed before the next one is read.
                result = self._check(
                    args, one_host, *observed(one_host, args.nova_config)
                )
            if others := sum(1 for _ in hosts):
                raise archive.ArchiveUnusable(
                    str(args.sos),
                    f"it has {others + 1} hosts, which 'sriov-rt explain "
                    "--sos' judges",
                )
            if isinstance(one_host, archive.ArchiveUnusable):
                raise one_host
            return result

    def _check(
        self,
        args: argparse.Namespace,
        root: Root,
        found_facts: Recorded,
        placed_by_nova: bool,
    ) -> Result:
        facts = found_facts.facts
        further = list(found_facts.reasons)
        if args.mode is not None:
            further += readiness.reasons(args.mode, facts)
        found = readiness.judge(
            decisive(facts),
            placed_by_nova=placed_by_nova,
            any_kernel=args.kernel == words.Kernel.ANY,
            further=further,
        )
        if args.sos is not None:
            found = Readiness(
                tuple(map(archive.collected, found.must)),
                tuple(map(archive.collected, found.should)),
            )
        owed = _owed(root)
        verdict = _verdict(facts, args.mode, found, owed)
        after: list[str] = []
        if args.fix_plan:
            plan = fix_plan.make(
                facts,
                found.must,
                placed_by_nova=placed_by_nova,
                tuned=fix_plan.tuned_of(root),
            )
            verdict["fix_plan"] = plan.to_plain()
            after += ["", *plan.lines()]
        if args.mode == ONLOAD:
            resource = onload_resource(root)
            verdict[ONLOAD] = onload_plain(facts, resource)
            after += onload_lines(facts, resource)
        return Result(
            columns=("Severity", "Code", "Problem", "Remedy"),
            shown=("Severity", "Problem", "Remedy"),
            rows=[
                (
                    severity,
                    each.code,
                    each.problem,
                    _PLANNED if each.code in owed else each.remedy,
                )
                for severity, reasons in (
                    ("must", found.must),
                    ("should", found.should),
                )
                for each in reasons
            ],
            document=verdict,
            before=[
                _summary(facts, args.mode, found),
                *([_KILLED] if records.was_killed(root) else []),
            ],
            after=after,
            code=0 if found.is_ready else EXIT_NOT_READY,
        )


class Features(OfHost, command.Lister):
    """Print the feature file that the agent writes for NFD.

    It does so if [labels] feature_file is set. Nothing is changed here.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add how long it holds."""
        parser.add_argument(
            "--expiry",
            type=arguments.seconds(duration.MAX_S),
            default=300.0,
            metavar="SECONDS",
            help="how long the labels in it count (default: %(default)g)",
        )
        super().configure(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the features, and the file as text."""
        found, _ = observe(args)
        now = time.time()
        named = own.of(found.facts, now)
        return Result(
            columns=("Feature", "Value"),
            rows=list(named.items()),
            document=dict(named),
            text=own.text(named, now + args.expiry).splitlines(),
        )


def observe(args: argparse.Namespace) -> tuple[Recorded, bool]:
    """Return the facts, and whether Nova is configured on the host.

    :raises SriovRtError: if the root is not a directory, or a named file does
        not exist.
    """
    if not pathlib.Path(args.root).is_dir():
        raise exceptions.SriovRtError(
            f"{args.root} is not a directory; give --root the directory that "
            "is / of the host, or leave it out"
        )
    return observed(Root(args.root), args.nova_config)


def observed(
    root: Root, nova_config: Sequence[str] | None = None
) -> tuple[Recorded, bool]:
    """Return the facts of a root, and whether Nova is configured there.

    :param nova_config: Nova's files; by default those named by sriov-rt.conf.
    :raises SriovRtError: if a named file does not exist.
    """
    for each in nova_config or ():
        if root.exists(each.lstrip("/")) is not True:
            raise exceptions.SriovRtError(
                f"{each} does not exist below {root.path}; give --nova-config "
                "a file of nova-compute, or leave it out"
            )
    # Errors are printed as reasons of unknown facts instead.
    logging.getLogger("sriov_rt").handlers = [logging.NullHandler()]
    files = nova_config or compute.named_files(root)
    settings = compute.read(root, files)
    name = compute.host_name(root, settings)
    if isinstance(name, Unknown):
        name = UNNAMED
    observer = Observer(
        root,
        name,
        name,
        load_sources(),
        nova_files=files,
        occupancy=Occupancy(root),
    )
    found = recorded.complete(observer.observe(), root)
    return found, settings is not None


def _owed(root: Root) -> frozenset[str]:
    """Return the codes of the Reasons that the next boot resolves."""
    found = maintenance.boot_owed(root)
    if isinstance(found, maintenance.BootOwed):
        return frozenset(found.codes)
    return frozenset()


def _verdict(
    facts: HostFacts,
    mode: str | None,
    found: Readiness,
    owed: frozenset[str],
) -> dict[str, object]:
    codes = {each.code for each in (*found.must, *found.should)}
    return {
        "host": facts.host,
        "mode": mode,
        "passes": found.is_ready,
        "reasons": _plain("must", found.must),
        "advice": _plain("should", found.should),
        "boot_owed": sorted(owed & codes),
    }


def _plain(
    severity: str, reasons: Iterable[Reason]
) -> list[dict[str, object]]:
    return [{**each.to_plain(), "severity": severity} for each in reasons]


def _summary(facts: HostFacts, mode: str | None, found: Readiness) -> str:
    what = "realtime" if mode is None else f"realtime and {mode}"
    host = printable(facts.host)
    if found.is_ready:
        return f"ready: {host} can serve {what} instances"
    return f"not ready: {host} cannot serve {what} instances"


def onload_plain(facts: HostFacts, resource: str) -> dict[str, Any]:
    """Return the NICs that Onload can use, as a JSON object.

    :param resource: the extended resource of Onload's device plugin.
    """
    return {
        "nics": codec.to_plain(facts.onload.nics),
        "pools": codec.to_plain(facts.vifs.pools),
        "allocatable": {resource: _allocatable(facts, resource)},
    }


def onload_lines(facts: HostFacts, resource: str) -> Iterator[str]:
    """Yield the NICs that Onload can use, as lines of text."""
    nics, pools = facts.onload.nics, facts.vifs.pools
    if isinstance(nics, Unknown):
        why = printable(nics.reason)
        yield f"NICs that Onload can use: unknown ({why})"
    else:
        usable = (f"{printable(nic)} ({how})" for nic, how in nics.items())
        yield f"NICs that Onload can use: {', '.join(usable) or 'none'}"
        found = {} if isinstance(pools, Unknown) else pools
        for physical, pool in found.items():
            able = ", ".join(printable(nic) for nic in pool if nic in nics)
            yield f"  on physical network {printable(physical)}: " + (
                able or "none"
            )
    count = _allocatable(facts, resource)
    if count is not None:
        yield f"Kubernetes can allocate {resource}: {printable(count)}"


def _allocatable(facts: HostFacts, resource: str) -> str | None:
    """Return how many of a resource the host's Node can allocate.

    A Node's extended resources are stored as labels
    (:func:`sriov_rt.kubernetes.node.labels`), and so among the facts.

    :returns: None if the host is not a Node or lacks such a device plugin.
    """
    values = facts.labels.values
    return None if isinstance(values, Unknown) else values.get(resource)


def onload_resource(root: Root) -> str:
    """Return ``[onload] resource`` of the host, or its default."""
    # Imported here, since Onload's configuration takes time to import.
    from sriov_rt.onload import settings
    from sriov_rt.onload.errors import OnloadError

    if root.exists(CONFIG) is not True:
        return settings.Settings().resource
    try:
        return settings.load([str(root.locate(CONFIG))]).resource
    except OnloadError:
        # The facts say what is wrong with the configuration.
        return settings.Settings().resource
