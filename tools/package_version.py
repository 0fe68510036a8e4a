#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Print the version that packages of this tree have, or set debian/'s.

It is pbr's: 1.0.0.dev601 is the 601st commit towards 1.0.0. dpkg and rpm
sort that above 1.0.0, and 1.0.0~dev601 below it.
"""

import argparse
import contextlib
import pathlib
import re

from pbr import packaging

CHECKOUT = pathlib.Path(__file__).resolve().parents[1]


def version(tree: pathlib.Path) -> str:
    """Return the version of a checkout, or of an sdist that was unpacked."""
    with contextlib.chdir(tree):
        return str(packaging.get_version("sriov-rt"))


def sortable(version: str) -> str:
    """Return a version of Python's as dpkg and rpm sort it.

    Not by pbr's debian_string(), which puts 1.0.0.0rc2.dev3 above 1.0.0.0rc2.
    """
    return re.sub(r"\.0?(?=[a-z])", "~", version)


def set_changelog(tree: pathlib.Path, version: str) -> None:
    """Give the newest entry of debian/changelog a version of Python's."""
    changelog = tree / "debian/changelog"
    text = re.sub(
        r"\A(\S+) \([^-)]+", rf"\1 ({sortable(version)}", changelog.read_text()
    )
    changelog.write_text(text)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--changelog",
        action="store_true",
        help="write it into debian/changelog in place of printing it",
    )
    found = version(CHECKOUT)
    if parser.parse_args().changelog:
        set_changelog(CHECKOUT, found)
    else:
        print(found)


if __name__ == "__main__":
    main()
