# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt vif restore``: ports whose VFs were destroyed and made again."""

import argparse
import dataclasses

from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Result
from sriov_rt.codec import Unknown
from sriov_rt.guest import running
from sriov_rt.host import guest_processes
from sriov_rt.host.root import Root

#: Exit codes: a port still has no interface; only ports of guests have none.
EXIT_LEFT = 1
EXIT_GUESTS = 3


class Restore(command.Lister):
    """Plug the ports of running containers again whose VFs were destroyed.

    A PF's driver that is loaded again, a device that is removed and found
    again and a change of sriov_numvfs destroy VFs with their interfaces.
    Make the VFs again first, by 'sriov-rt vf provision'.
    """

    of_root = True
    epilog = (
        "Exit code 1: a port has no interface yet, and a later run may give "
        "it one; the reason is printed. 3: only guests are left, which need a "
        "hard reboot. 130: Ctrl-C came; the ports whose turn did not come are "
        "left."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the configuration."""
        command.add_config(parser, "vif")
        command.add_dry_run(parser, "the ports that would be plugged again")

    def run(self, args: argparse.Namespace) -> Result:
        """Plug them again, and return the result for each."""
        # Imported here, since the kernel's interfaces take long to import.
        from sriov_rt.vif import plugger as pluggers
        from sriov_rt.vif.restore import Restored
        from sriov_rt.vif.restore import Restoring

        plugger = pluggers.configured(args.config_file)
        restoring = Restoring(plugger, container)
        is_on = plugger.host.rules.restore
        none = "no port has lost its interface"
        if not is_on:
            none = "[vif] restore is off"
        if args.dry_run:
            found = restoring.find() if is_on else ()
            lost = [(each.port, each.interface) for each in found]
            return _result({"lost": lost}, 0, none)
        with faults.Interrupt() as interrupt:
            done = restoring.run(interrupt.came) if is_on else Restored()
        code = EXIT_GUESTS if done.guests else 0
        code = EXIT_LEFT if done.left else code
        if interrupt.came():
            code = faults.EXIT_INTERRUPTED
        return _result(dataclasses.asdict(done), code, none)


def _result(document: dict[str, object], code: int, none: str) -> Result:
    rows = [
        (what, *((each, "") if isinstance(each, str) else each))
        for what, ports in document.items()
        for each in ports  # type: ignore[attr-defined]
    ]
    return Result(
        columns=("Result", "Port", "Reason"),
        rows=rows,
        document=document,
        text=[": ".join(filter(None, row)) for row in rows]
        or [f"nothing to do: {none}"],
        code=code,
    )


def container(owner: str) -> str | None:
    """Return the namespace of a container that libvirt runs, as ``pid:N``.

    :param owner: UUID of its domain, which is that of Nova's instance.
    :returns: None if libvirt runs no such container.
    :raises VifError: if that is unknown, so that the port is not plugged.
    """
    from sriov_rt.vif.errors import VifError

    root = Root("/")
    found = running.guests(root, guest_processes.CONTAINERS)
    if isinstance(found, Unknown):
        raise VifError(owner, detail=f"containers: {found.reason}")
    keeper = next((x.process for x in found if x.instance == owner), None)
    if keeper is None:
        return None
    # The first child of libvirt's process is the container's first process.
    text = root.read_text(f"proc/{keeper}/task/{keeper}/children")
    if isinstance(text, Unknown) or not text.split():
        raise VifError(
            owner, detail="its container has no process yet; run this again"
        )
    return f"pid:{text.split()[0]}"
