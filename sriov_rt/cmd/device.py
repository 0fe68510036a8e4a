# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt device``: cleaning of whole PCI devices between two tenants."""

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Result
from sriov_rt.host.root import Root
from sriov_rt.parse.pci import PciAddress
from sriov_rt.service import threads

if TYPE_CHECKING:
    from sriov_rt.devices.cleaning import Outcome

_HEADERS = ("Device", "State", "Method", "Reason")

#: Exit code if a device stays reserved.
EXIT_RESERVED = 1


class Clean(command.Lister):
    """Clean one-time-use devices of past instances, and un-reserve them."""

    of_root = True
    epilog = (
        "Exit code 1: a device stays reserved, with the reason. A device that "
        "an instance has is left alone."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the devices."""
        parser.add_argument(
            "address",
            nargs="*",
            metavar="ADDRESS",
            help="clean the devices of these PCI addresses only, whether "
            "[devices] clean names them or not",
        )
        command.add_config(parser, "devices")
        command.add_dry_run(parser, "what would be done to which device")

    def run(self, args: argparse.Namespace) -> Result:
        """Clean them, and return the result for each."""
        threads.choose()
        # Imported here, since keystoneauth takes long to import.
        from sriov_rt.devices import cleaning
        from sriov_rt.devices import options
        from sriov_rt.devices import settings
        from sriov_rt.devices.sysfs import Devices

        named = [str(PciAddress.parse(each)) for each in args.address]
        found = settings.configured(args.config_file)
        patterns = named or found.clean
        if not patterns and not args.dry_run:
            return command.lines(
                ["[devices] clean names no device: nothing to do"], []
            )
        root = Root()
        work = cleaning.Cleaning(
            found.placement(),
            Devices(root),
            found.node,
            lambda address: options.is_chosen(address, patterns),
            faults.progress(is_quiet=self.caller.is_quiet),
        )
        if args.dry_run:
            outcomes = [*work.run(dry=True)]
        else:
            with cleaning.alone(root):
                outcomes = [*work.run()]
                if not named:
                    cleaning.keep(root, outcomes, time.time())
        if named:
            outcomes = [*cleaning.of(named, outcomes, found.node)]
        is_clean = all(each.reason is None for each in outcomes)
        return _result(outcomes, found.node, 0 if is_clean else EXIT_RESERVED)


def _result(outcomes: Sequence["Outcome"], node: str, code: int) -> Result:
    return Result(
        columns=_HEADERS,
        rows=[
            (
                each.name,
                each.state,
                each.method,
                None if each.reason is None else each.reason.message,
            )
            for each in outcomes
        ],
        document=[each.to_plain() for each in outcomes],
        text=[each.line() for each in outcomes]
        or [f"no one-time-use device beneath resource provider {node}"],
        code=code,
    )
