# SPDX-License-Identifier: Apache-2.0

"""Source trees of this state and of an earlier one, to build packages from."""

import functools
import os
import pathlib
import runpy
import shutil
import subprocess
from typing import Any

from tests.testbed import earlier
from tests.testbed import errors
from tests.testbed import paths

#: The commit that brought this file is the oldest that has packages.
_PACKAGING = "debian/control"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ("git", "-C", str(paths.CHECKOUT), *arguments),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


@functools.cache
def versions() -> dict[str, Any]:
    """Return version(), sortable() and set_changelog() of this state.

    They need pbr, which not all have that import this module.
    """
    return runpy.run_path(str(paths.CHECKOUT / "tools/package_version.py"))


def previous() -> str:
    """Return the commit to upgrade from.

    It is what the environment names, or the last release before this commit;
    before the first release it is the oldest commit that has debian/.

    :raises errors.TestbedError: in a shallow clone, whose history does not say
        which one that is.
    """
    if named := os.environ.get(earlier.VARIABLE):
        return _git("rev-parse", f"{named}^{{commit}}").strip()
    if _git("rev-parse", "--is-shallow-repository").strip() == "true":
        raise errors.TestbedError(
            "this clone is shallow and has no earlier state to upgrade from; "
            "run 'git fetch --unshallow --tags' or set "
            f"{earlier.VARIABLE} to a commit"
        )
    found = _git("tag", "--merged", "HEAD^", "--sort=-v:refname", "-l", "v*")
    if found:
        return _git("rev-parse", f"{found.split()[0]}^{{commit}}").strip()
    added = ("log", "--reverse", "--diff-filter=A", "--format=%H")
    return _git(*added, "--", _PACKAGING).split()[0]


def version(commit: str, scratch: pathlib.Path) -> str:
    """Return the version of a commit.

    :param scratch: a directory for a clone, made if it isn't there.
    """
    clone = scratch / "clone"
    if not clone.exists():
        _git("clone", "-q", "--no-checkout", str(paths.CHECKOUT), str(clone))
    # The clone's HEAD is another one each time.
    name = _git("rev-parse", commit).strip()
    command = ("git", "-C", str(clone), "checkout", "-q", "--detach", name)
    subprocess.run(command, check=True, timeout=60)
    return str(versions()["version"](clone))


def copy(tree: pathlib.Path) -> None:
    """Copy this checkout, without what git ignores.

    :param tree: a directory that is made.
    """
    listed = _git("ls-files", "-z", "-c", "-o", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        path = paths.CHECKOUT / name
        if path.is_file():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def extract(commit: str, tree: pathlib.Path) -> None:
    """Extract a commit.

    :param tree: a directory that is made.
    :raises errors.TestbedError: if the commit has no debian/.
    """
    tree.mkdir(parents=True)
    with subprocess.Popen(
        ("git", "-C", str(paths.CHECKOUT), "archive", commit),
        stdout=subprocess.PIPE,
    ) as archive:
        subprocess.run(
            ("tar", "-x", "-C", str(tree)),
            stdin=archive.stdout,
            check=True,
            timeout=60,
        )
    if not (tree / _PACKAGING).exists():
        raise errors.TestbedError(f"{commit} has no {_PACKAGING}")
