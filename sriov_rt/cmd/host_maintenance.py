# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt host hold`` and ``release``: a host under maintenance."""

import argparse
import contextlib
import os
import pwd
import time
from collections.abc import Callable

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd.command import Result
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostHold
from sriov_rt.host import maintenance
from sriov_rt.host.root import Root
from sriov_rt.parse import duration
from sriov_rt.parse import errors
from sriov_rt.parse import timestamp
from sriov_rt.parse.text import printable

#: The longest name and the longest clause, in characters.
_LONGEST = 200


#: Seconds to wait for another command, which takes milliseconds.
_LOCK_S = 10.0


class HoldOfAnother(exceptions.SriovRtError):
    """Somebody else has put the host on hold."""

    def __init__(self, found: HostHold) -> None:
        self.found = found
        super().__init__(
            f"{printable(found.who)} put this host on hold "
            f"({printable(found.why)}); agree with them, run 'sriov-rt host "
            "release' and put it on hold again"
        )


class HoldHost(command.ShowOne):
    """Put this host on hold: it takes no realtime guest until released.

    Guests that run stay, and flavors without sriov_rt:realtime or
    sriov_rt:max_latency_us are placed as before.
    """

    of_root = True
    epilog = (
        "Schedulers know it within [agent] observe_interval; nova-compute "
        "refuses what they place here meanwhile."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add who, why and until when."""
        parser.add_argument(
            "--why",
            type=_clause,
            required=True,
            metavar="TEXT",
            help="what is done to the host, such as 'kernel 6.12'",
        )
        parser.add_argument(
            "--who",
            type=_clause,
            metavar="NAME",
            help="who answers for it (default: the user, before sudo)",
        )
        parser.add_argument(
            "--until",
            type=arguments.reader(_end),
            metavar="TIME",
            help="when the hold ends by itself: a span such as 4h, or a time "
            "in UTC such as 2026-12-01T06:00 (default: only 'host release' "
            "ends it)",
        )
        command.add_dry_run(parser, "the hold")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the hold, which is written once it is printed."""
        root = Root("/")
        new = HostHold(args.who or _user(), args.why, time.time(), args.until)
        _check(root, new)
        return _shown(new, None if args.dry_run else lambda: write(root, new))


class ReleaseHost(command.ShowOne):
    """Release this host, so that it takes realtime guests again."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--dry-run``."""
        command.add_dry_run(parser, "the hold that would end")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the hold, which ends once it is printed."""
        root = Root("/")
        found = maintenance.read(root)
        return _shown(
            found,
            None if args.dry_run else lambda: release(root, found),
            ("hold", "would end" if args.dry_run else "ends now"),
        )


def _check(root: Root, new: HostHold) -> None:
    """Check that nobody else has the host on hold.

    :raises HoldOfAnother: if somebody has.
    :raises SriovRtError: if the hold cannot be read.
    """
    found = maintenance.read(root)
    if isinstance(found, Unknown):
        raise exceptions.SriovRtError(
            f"it is unknown who put this host on hold ({found.reason}); "
            "find that out, then run 'sriov-rt host release'"
        )
    if (
        found is not None
        and found.who != new.who
        and not maintenance.has_ended(found, new.since)
    ):
        raise HoldOfAnother(found)


def _locked(root: Root) -> contextlib.AbstractContextManager[object]:
    path = root.path / maintenance.PATH
    files.make_directory(path.parent)
    return files.locked(path.with_name(".hold.lock"), _LOCK_S)


def write(root: Root, new: HostHold) -> None:
    """Put the host on hold.

    :raises HoldOfAnother: if somebody else has.
    :raises OSError: if it cannot be written; the old state is kept then.
    """
    with _locked(root):
        _check(root, new)
        data = documents.dump(new, maintenance.SCHEMA_VERSION)
        path = root.path / maintenance.PATH
        files.replace(path, data, 0o644, durable=True)


def release(root: Root, found: HostHold | None | Unknown) -> None:
    """End the hold that was found, if there is one.

    :raises HoldOfAnother: if there is another hold now.
    :raises OSError: if the file cannot be removed.
    """
    with _locked(root):
        now = maintenance.read(root)
        if isinstance(now, HostHold) and now != found:
            raise HoldOfAnother(now)
        (root.path / maintenance.PATH).unlink(missing_ok=True)


def _shown(
    found: HostHold | None | Unknown,
    apply: Callable[[], object] | None,
    *first: tuple[str, object],
) -> Result:
    if isinstance(found, HostHold):
        until = found.until
        fields: tuple[tuple[str, object], ...] = (
            *first,
            ("who", printable(found.who)),
            ("why", printable(found.why)),
            ("since", timestamp.text(found.since)),
            ("until", "release" if until is None else timestamp.text(until)),
        )
    elif found is None:
        fields = (("hold", "none"),)
    else:
        fields = (("hold", f"unknown ({printable(found.reason)})"),)
    return command.one(fields, {"hold": codec.to_plain(found)}, apply=apply)


def _clause(text: str) -> str:
    """Return one line of text.

    :raises argparse.ArgumentTypeError: if it is not one line, or is too long.
    """
    if not text.strip() or len(text) > _LONGEST or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"one line of 1 to {_LONGEST} characters expected"
        )
    return text


def _end(text: str) -> float:
    """Return the Unix time of a moment, or of a span from now.

    :raises ParseError: if it is neither, or is in the past.
    """
    now = time.time()
    try:
        return now + duration.parse_duration(text)
    except errors.ParseError:
        found = timestamp.parse(text)
    if found <= now:
        raise errors.ParseError("time", text, "it has passed")
    return found


def _user() -> str:
    """Return the name of the user who runs this, before sudo."""
    name = os.environ.get("SUDO_USER")
    if name:
        return name
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
