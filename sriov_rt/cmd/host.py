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

"""``sriov-rt host``: what this host is, and what it lacks."""

import argparse
import json
import logging
import pathlib
import time
from collections.abc import Iterable

from sriov_rt import exceptions
from sriov_rt.codec import Unknown
from sriov_rt.decide import realtime
from sriov_rt.facts import HostFacts
from sriov_rt.host import modes
from sriov_rt.host import novaconf
from sriov_rt.host import sources
from sriov_rt.host import table
from sriov_rt.host.observe import Observer
from sriov_rt.host.root import Root
from sriov_rt.labels import own
from sriov_rt.labels import recorded
from sriov_rt.labels.recorded import Recorded
from sriov_rt.reason import Reason

HOSTNAME = "proc/sys/kernel/hostname"

#: The mode of which more is told than whether the host is ready.
ONLOAD = "onload"

#: Exit code of a check that found something.
EXIT_NOT_READY = 1


class RootMissing(exceptions.SriovRtError):
    """The directory to read a host from is none.

    :param path: as it was given.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} is no directory; give --root the directory that is / of "
            "the host, or leave it out"
        )


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``show``, ``check`` and ``features`` and their arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    show = actions.add_parser("show", help="print what this host is")
    _add_common(show)
    show.set_defaults(run=_show)
    check = actions.add_parser(
        "check",
        help="print what keeps this host from being realtime; exit 1 if "
        "anything does",
    )
    check.add_argument(
        "--mode",
        choices=tuple(modes.MODES),
        help="check also what it takes to give guests NICs in this way",
    )
    _add_common(check)
    check.set_defaults(run=_check)
    features = actions.add_parser(
        "features",
        help="print the feature file that the agent writes for NFD, if "
        "[labels] feature_file is set; changes nothing",
    )
    features.add_argument(
        "--expiry",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long NFD is to believe it (default: %(default)s)",
    )
    _add_common(features)
    features.set_defaults(run=_features)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="read the host whose / is DIR (default: this one)",
    )
    parser.add_argument(
        "--nova-config",
        action="append",
        metavar="FILE",
        help="a configuration file of nova-compute, below the root; may be "
        f"repeated (default: {', '.join(novaconf.FILES)})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _show(args: argparse.Namespace) -> int:
    found, _ = _observe(args)
    if args.json:
        print(json.dumps(found.facts.to_plain(), indent=2))
    else:
        print("\n".join(table.lines(found.facts, found.ages_s)))
    return 0


def _check(args: argparse.Namespace) -> int:
    observed, placed_by_nova = _observe(args)
    facts = observed.facts
    found = list(realtime.reasons(facts, placed_by_nova=placed_by_nova))
    found += observed.reasons
    if args.mode is not None:
        found += modes.reasons(args.mode, facts)
    problems = tuple({each.message: each for each in found}.values())
    verdict = _verdict(facts, args.mode, problems)
    told = [*_lines(facts, args.mode, problems)]
    if args.mode == ONLOAD:
        # Onload's configuration takes time to import that others don't need.
        from sriov_rt.cmd import host_onload

        resource = host_onload.resource(Root(args.root))
        verdict[ONLOAD] = host_onload.plain(facts, resource)
        told += host_onload.lines(facts, resource)
    print(json.dumps(verdict, indent=2) if args.json else "\n".join(told))
    return EXIT_NOT_READY if problems else 0


def _features(args: argparse.Namespace) -> int:
    found, _ = _observe(args)
    now = time.time()
    named = own.of(found.facts, now)
    if args.json:
        print(json.dumps(named, indent=2))
    else:
        print(own.text(named, now + args.expiry), end="")
    return 0


def _observe(args: argparse.Namespace) -> tuple[Recorded, bool]:
    """Return the facts, and whether Nova is configured on the host.

    :raises RootMissing: if the root is no directory.
    """
    if not pathlib.Path(args.root).is_dir():
        raise RootMissing(args.root)
    root = Root(args.root)
    # What goes wrong is printed as the reason of what is unknown.
    logging.getLogger("sriov_rt").addHandler(logging.NullHandler())
    files = args.nova_config or novaconf.FILES
    settings = novaconf.read(root, files)
    name = _name(root, settings)
    observer = Observer(root, name, name, sources.load(), nova_files=files)
    found = recorded.complete(observer.observe(), root)
    return found, settings is not None


def _name(root: Root, settings: novaconf.Settings | None | Unknown) -> str:
    """Return the host's name as nova-compute has it."""
    if settings is not None and not isinstance(settings, Unknown):
        configured = settings.get(("DEFAULT", "host"), "").strip()
        if configured:
            return configured
    hostname = root.read_text(HOSTNAME)
    return "unknown" if isinstance(hostname, Unknown) else hostname.strip()


def _verdict(
    facts: HostFacts, mode: str | None, problems: Iterable[Reason]
) -> dict[str, object]:
    found = [each.to_plain() for each in problems]
    return {
        "host": facts.host,
        "mode": mode,
        "passes": not found,
        "reasons": found,
    }


def _lines(
    facts: HostFacts, mode: str | None, problems: tuple[Reason, ...]
) -> Iterable[str]:
    what = "realtime" if mode is None else f"realtime and {mode}"
    host = table.printable(facts.host)
    if not problems:
        return [f"ready: {host} can serve {what} instances"]
    return [
        f"not ready: {host} cannot serve {what} instances",
        *(
            f"  {each.code}: {table.printable(each.message)}"
            for each in problems
        ),
    ]
