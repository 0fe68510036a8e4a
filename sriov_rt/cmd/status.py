# SPDX-License-Identifier: Apache-2.0

"""The ``sriov-rt-status`` command: checks before an upgrade."""

import importlib.metadata
import sys
import typing
from collections.abc import Sequence

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from sriov_rt import config
from sriov_rt.cmd import faults
from sriov_rt.cmd import upgrade_checks as checks
from sriov_rt.service import threads

if typing.TYPE_CHECKING:
    from sriov_rt.cmd import upgrade_state

PACKAGE = "sriov-rt"

#: Exit code for a configuration that the services would refuse, too.
EXIT_CONFIGURATION = 2


class Checks(upgradecheck.UpgradeCommands):
    """The checks, in the order of their table.

    :param conf: configuration from the command line.
    """

    display_title = "sriov-rt Upgrade Check Results"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__()
        self._conf = conf
        self._version = importlib.metadata.version(PACKAGE)

    def _host(self) -> "upgrade_state.Host":
        from sriov_rt.cmd import upgrade_state

        return upgrade_state.Host(self._conf.config_file or None)

    def _configuration(self) -> upgradecheck.Result:
        return checks.configuration(tuple(self._host().problems()))

    def _filters(self) -> upgradecheck.Result:
        return checks.filters(self._host().filters())

    def _agents(self) -> upgradecheck.Result:
        return checks.agents(self._host().agents(), self._version)

    def _records(self) -> upgradecheck.Result:
        return checks.records(self._host().stored_ports())

    def _shim(self) -> upgradecheck.Result:
        host = self._host()
        return checks.shim(host.shim(), host.configured_driver())

    def _units(self) -> upgradecheck.Result:
        return checks.units(self._host().units())

    def _compute_driver(self) -> upgradecheck.Result:
        return checks.compute_driver(self._host().compute(), self._version)

    def _kubevirt(self) -> upgradecheck.Result:
        return checks.kubevirt(self._host().kubevirt())

    def _dhcp(self) -> upgradecheck.Result:
        return checks.dhcp(self._host().dhcp())

    _upgrade_checks = (
        ("Configuration", _configuration),
        ("Scheduler filters", _filters),
        ("Agents", _agents),
        ("Records of ports", _records),
        ("Module in nova.virt", _shim),
        ("Capabilities of units", _units),
        ("Compute driver", _compute_driver),
        ("Plugin of KubeVirt", _kubevirt),
        ("DHCP beside OVN", _dhcp),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    :returns: 0 for success, 1 for a warning, 2 for a failure, 255 if a check
        could not be made.
    """
    # Before a check imports oslo.messaging.
    threads.choose()
    conf = cfg.ConfigOpts()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        config.check_files(config.named_files(words))
        code: int = upgradecheck.main(
            conf,
            project=config.PROJECT,
            upgrade_command=Checks(conf),
            argv=words,
            # They are checked below; parsing them here would exit on errors.
            default_config_files=[],
        )
        sys.stdout.flush()
    except BrokenPipeError as error:
        return faults.report(error)
    except cfg.Error as error:
        print(f"sriov-rt-status: error: {error}", file=sys.stderr)
        return EXIT_CONFIGURATION
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
