# SPDX-License-Identifier: Apache-2.0

"""The ``sriov-rt-agent`` command."""

import sys
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.cmd import faults
from sriov_rt.facts import CountedVf
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.reason import Reason
from sriov_rt.service import threads


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        # Once it is running, the agent handles SIGINT itself.
        print("sriov-rt-agent: interrupted", file=sys.stderr)
        return faults.EXIT_INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    threads.choose()
    from sriov_rt.agent import process

    return process.main(arguments, check_observed, _count_vfs, _find_changed)


def _find_changed(root: Root) -> Iterable[tuple[str, Reason]]:
    """Return the VFs that were changed behind their ports."""
    from sriov_rt.vif import changed_vfs

    return changed_vfs.of_host(root)


def _count_vfs() -> Sequence[CountedVf]:
    """Return the VFs of this host, with their counters."""
    # Imported here, since most hosts serve no metrics.
    from sriov_rt.vif import vf_counters

    return vf_counters.of_host()


def check_observed(conf: cfg.ConfigOpts, service: str) -> None:
    """Check the options of ``[vif]`` and ``[onload]``, which are facts.

    They are read below the root, whatever ``--config-file`` names.

    :param conf: the agent's configuration.
    :raises oslo_config.cfg.Error: if the file cannot be parsed.
    :raises OptionRejected: for an option with a bad value.
    """
    from sriov_rt.onload import settings as onload
    from sriov_rt.vif import settings as vif

    path = Root(conf.agent.root).path / CONFIG
    try:
        observed = config.load([path] if path.exists() else [])
    except (PermissionError, cfg.ConfigFilesPermissionDeniedError):
        return  # the facts say so
    vif.check(observed, service)
    onload.check(observed, service)


if __name__ == "__main__":
    sys.exit(main())
