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

"""``sriov-rt guest``: strip, pin and schedule a libvirt domain."""

import argparse
import json

from sriov_rt.cmd import command
from sriov_rt.cmd import domain
from sriov_rt.cmd.command import Found
from sriov_rt.guest import engine
from sriov_rt.guest.report import Report

EXIT_CHANGES = 1


class Render(command.Text):
    """Write a domain as the extra specs request.

    It is read from a file or standard input, and written to standard output.
    """

    epilog = domain.EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the domain, the request and where the report goes."""
        domain.configure_render(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Write it."""
        return domain.render(parsed_args)


class Check(command.Lister):
    """Print what 'guest render' would change in a domain."""

    epilog = domain.EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the domain and the request."""
        domain.add_inputs(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the changes, or why there can be none."""
        try:
            report = domain.rendered(args).report
        except engine.Refused as refused:
            code = domain.refuse(refused)
            reasons = [each.to_plain() for each in refused.reasons]
            return Found((), (), {"refused": reasons}, code=code)
        return _found(report)


def _found(report: Report) -> Found:
    rows = [
        (each.action, each.element, each.detail, each.why)
        for each in report.changes
    ]
    rows += [("left alone", "", "", note.message) for note in report.notes]
    return Found(
        columns=("Action", "Element", "Detail", "Why"),
        rows=rows,
        document=json.loads(report.to_json()),
        before=() if rows else ("nothing to change",),
        code=EXIT_CHANGES if report.changes else 0,
    )
