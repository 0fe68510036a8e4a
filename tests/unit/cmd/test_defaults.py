# SPDX-License-Identifier: Apache-2.0

"""The defaults that help and pages name are those of the code."""

import argparse
import importlib
import inspect
import pathlib
import re
import unittest
from collections.abc import Iterator

from sriov_rt.cmd import command
from sriov_rt.verify import disk

PACKAGE = pathlib.Path(command.__file__).parent
ADMIN = PACKAGE.parents[1] / "doc/source/admin"


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the name and the parser of each command."""
    for path in sorted(PACKAGE.glob("*.py")):
        module = importlib.import_module(f"sriov_rt.cmd.{path.stem}")
        for name, cls in inspect.getmembers(module, inspect.isclass):
            mine = cls.__module__ == module.__name__
            if not mine or inspect.isabstract(cls):
                continue
            if hasattr(cls, "configure"):
                parser = argparse.ArgumentParser()
                cls.configure(cls.__new__(cls), parser)
                yield f"{path.stem}.{name}", parser


class DefaultsTest(unittest.TestCase):
    def test_help_names_the_default_of_each_option(self):
        seen = 0
        for name, parser in parsers():
            for action in parser._actions:  # noqa: SLF001
                found = re.search(r"\(default: (\d\w*)\)", action.help or "")
                if found and callable(action.type):
                    seen += 1
                    with self.subTest(command=name, option=action.dest):
                        self.assertEqual(action.default, action.type(found[1]))
        self.assertGreater(seen, 5)

    def test_pages_name_the_defaults(self):
        parser = dict(parsers())["verify_disk.Disk"]
        # It follows from the disk, and begins with this.
        self.assertIsNone(parser.get_default("size"))
        self.assertEqual(1024, disk.SIZES[0])
        page = " ".join((ADMIN / "disk.rst").read_text().split())
        self.assertIn("the default is 1 GB", page)
