# SPDX-License-Identifier: Apache-2.0

"""The phases of our DevStack plugin, run without a DevStack.

functions.sh has what they need of one: a small implementation of our own.
"""

import dataclasses
import pathlib
import shlex
import subprocess
from collections.abc import Mapping

from tests.testbed import errors

#: Phases, as the arguments of plugin.sh.
PRE_INSTALL = "stack pre-install"
INSTALL = "stack install"
POST_CONFIG = "stack post-config"
EXTRA = "stack extra"
TEST_CONFIG = "stack test-config"
UNSTACK = "unstack"
CLEAN = "clean"

_RUN = pathlib.Path(__file__).parent / "run_phases.sh"


@dataclasses.dataclass(frozen=True)
class Node:
    """A node that DevStack would make, as far as our plugin sees it.

    :param directory: where to keep the file with its variables.
    :param variables: those of DevStack and of local.conf, by name.
    """

    directory: pathlib.Path
    variables: Mapping[str, str]

    def attempt(
        self, *phases: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run phases in one shell, and return how that ended.

        :param phases: constants of this module.
        :param environment: of the shell; ours if None.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        localrc = self.directory / "localrc"
        localrc.write_text(
            "".join(
                f"{name}={shlex.quote(value)}\n"
                for name, value in self.variables.items()
            )
        )
        return subprocess.run(
            ("bash", str(_RUN), str(localrc), *phases),
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            text=True,
            timeout=120,
            check=False,
        )

    def run(
        self, *phases: str, environment: Mapping[str, str] | None = None
    ) -> None:
        """Run phases in one shell.

        :param phases: constants of this module.
        :param environment: of the shell; ours if None.
        :raises errors.TestbedError: when one fails.
        """
        done = self.attempt(*phases, environment=environment)
        if done.returncode:
            raise errors.TestbedError(
                f"devstack/plugin.sh {', '.join(phases)}: {done.stderr}"
            )
