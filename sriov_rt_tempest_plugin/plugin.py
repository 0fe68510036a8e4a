# SPDX-License-Identifier: Apache-2.0

"""Entry point of the plugin."""

import pathlib
from typing import Any

from tempest import config
from tempest.test_discover import plugins

from sriov_rt_tempest_plugin import config as options


class SriovRtTempestPlugin(plugins.TempestPlugin):  # type: ignore[misc]
    """Tempest plugin of sriov-rt."""

    def load_tests(self) -> tuple[str, str]:
        """Return the directory of the tests and that of the package."""
        package = pathlib.Path(__file__).absolute().parent
        return str(package / "tests"), str(package.parent)

    def register_opts(self, conf: Any) -> None:
        """Register our options.

        :param conf: Tempest's configuration.
        """
        for group, opts in options.GROUPS:
            config.register_opt_group(conf, group, opts)

    def get_opt_lists(self) -> list[tuple[str, list[Any]]]:
        """Return our options, for the sample configuration."""
        return [(group.name, list(opts)) for group, opts in options.GROUPS]
