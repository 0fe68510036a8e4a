# SPDX-License-Identifier: Apache-2.0

"""A stand-in of vdsm: the contract of its hooks, and nothing else of it.

Written from lib/vdsm/common/hooks.py of vdsm as of June 2026: executables of
a directory in sorted order, the domain in a file, custom properties last into
the environment, and what exit codes mean. It is no vdsm: it has no engine,
and what is done between hooks is left out.
"""

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping

#: Events of which vdsm takes no other domain (their callers in
#: lib/vdsm/virt/vm.py, 4.50.7).
DROPPED = frozenset({"before_vm_dehibernate", "before_vm_migrate_destination"})


class HookError(Exception):
    """A hook has refused: its text is what the engine shows."""


def run_hooks(
    hooks: pathlib.Path, event: str, xml: str, properties: Mapping[str, str]
) -> str:
    """Run the hooks of an event, and return the domain that vdsm goes on with.

    :param hooks: vdsm's directory of hooks.
    :raises HookError: if one of a ``before_`` event refuses.
    """
    programs = sorted(
        path
        for path in (hooks / event).glob("*")
        if path.is_file() and os.access(path, os.X_OK)
    )
    with tempfile.NamedTemporaryFile("w", suffix=".xml", delete=False) as file:
        file.write(xml)
    path = pathlib.Path(file.name)
    # PYTHONPATH was empty, so that it begins with a colon; the VM's
    # properties come last, whatever they are called.
    environment = {
        **os.environ,
        "PYTHONPATH": f":{hooks}",
        "_hook_domxml": str(path),
        "vmId": "5b8f7d0e-0000-4000-8000-000000000001",
        **properties,
    }
    failed = False
    errors = b""
    try:
        for program in programs:
            # vdsm wraps hooks in taskset, which gives them all CPUs.
            done = subprocess.run(
                ("taskset", "--cpu-list", "0-4095", str(program)),
                env=environment,
                cwd=hooks,
                capture_output=True,
                check=False,
            )
            errors += done.stderr
            failed |= done.returncode != 0
            if done.returncode >= 2:
                break
        if failed and event.startswith("before_"):
            raise HookError(f"Hook Error: ({errors!r},)")
        return xml if event in DROPPED else path.read_text()
    finally:
        path.unlink(missing_ok=True)
