# SPDX-License-Identifier: Apache-2.0

"""Debian packages of a tree, built where their build dependencies are."""

import dataclasses
import pathlib
import re

from tests.testbed import debian_tree

#: The release of Debian whose OpenStack is one that sriov-rt supports.
SUITE = "forky"

#: Seconds that a build, and lintian, may take.
_BUILD_S = 1800.0

PACKAGES = (
    "python3-sriov-rt",
    "sriov-rt-agent",
    "sriov-rt-common",
    "sriov-rt-neutron-agent",
)


def build_dependencies(control: str) -> tuple[str, ...]:
    """Return the packages that debian/control says are needed to build.

    :param control: its text.
    """
    found = re.search(r"(?m)^Build-Depends:\n((?: .*\n)+)", control)
    assert found is not None
    names = (line.split()[0] for line in found[1].splitlines())
    return tuple(
        # debhelper provides debhelper-compat, and packages sequences.
        re.sub(r"^debhelper-compat$", "debhelper", name.rstrip(","))
        for name in names
    )


@dataclasses.dataclass(frozen=True)
class Builder:
    """A tree of Debian with the build dependencies and lintian.

    :param root: where it is; it is changed by nobody.
    :param log: file that takes the output.
    """

    root: pathlib.Path
    log: pathlib.Path

    @classmethod
    def make(cls, control: str, log: pathlib.Path) -> "Builder":
        """Make the tree, or find it in the cache.

        :param control: the text of debian/control.
        :raises errors.TestbedError: if something can't be installed.
        """
        wanted = ("build-essential", "lintian", *build_dependencies(control))
        return cls(debian_tree.make(SUITE, wanted, log), log)

    def build(self, source: pathlib.Path) -> dict[str, pathlib.Path]:
        """Build a source tree; return the packages by name.

        They are left beside the tree, with a .changes file.

        :raises errors.CommandFailed: if that fails.
        """
        self._run(
            source.parent,
            f"cd /build/{source.name} && dpkg-buildpackage -us -uc -b",
        )
        found = sorted(source.parent.glob("*.deb"))
        return {each.name.partition("_")[0]: each for each in found}

    def lint(self, directory: pathlib.Path) -> None:
        """Have lintian judge what was built.

        :raises errors.CommandFailed: for an error or a warning.
        """
        self._run(
            directory,
            "lintian --allow-root --fail-on error,warning /build/*.changes",
        )

    def _run(self, directory: pathlib.Path, script: str) -> None:
        debian_tree.run_in(
            self.root,
            ("sh", "-ec", script),
            binds={directory: "/build"},
            log=self.log,
            timeout=_BUILD_S,
        )
