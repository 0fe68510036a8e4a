# SPDX-License-Identifier: Apache-2.0

"""The commands that README.rst shows."""

import re
import shlex

from tests.testbed import paths


def flavor_commands() -> list[list[str]]:
    """Return the words of README.rst's `openstack ... flavor` commands."""
    text = (paths.CHECKOUT / "README.rst").read_text()
    joined = text.replace("\\\n", " ")
    found = re.findall(
        r"^ +(openstack (?:--\S+ \S+ )?flavor .*)$", joined, re.MULTILINE
    )
    return [shlex.split(command) for command in found]
