# SPDX-License-Identifier: Apache-2.0

"""Operators' texts and first lines use the field's words."""

import ast
import functools
import pathlib
import re
import unittest
from collections.abc import Iterator
from typing import NamedTuple

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]

#: Words that only we used, none of which an operator needs.
_WORDS = re.compile(
    r"\b(tells?|told|asked|anew|alike|abroad|deaf|christen\w*|at rest"
    r"|tick-free|set aside|is no (whole number|entry|name of)"
    r"|a physical network or a parent is needed|make it readable)\b"
)

#: More words that may not be in the first line of a docstring.
_FIRST = re.compile(r"\bwanted\b|^Tell |^What (can go|goes) wrong")

#: The first line of a docstring names a thing or says what is done.
_FRAGMENT = re.compile(r"^(What|Whose|Who|Those|Have|Let)\b|\bcame of\b")

#: Words that may not be in any name: of modules, classes and functions,
#: parameters, constants, variables and attributes.
_NAMES = re.compile(
    r"(?i)(^|_)(tells?|told|untold|asked|asking|wanted|here|home|abroad"
    r"|standing|anew|christen|deaf|alike|settle[dr]?|settling|unsettled"
    r"|rest|depart\w*|holds?|held|spaces?|strangers?)(_|$)"
)

#: Names that are keys in JSON and in files on disk.
_KEYS = {
    # In the output of 'sriov-rt vif recover --json'.
    ("recovery.py", "standing"),
    # In the facts, after the command "host hold".
    ("parts.py", "hold"),
    ("fleet.py", "hold"),
}

#: A text of one word is a value or a key, such as in JSON.
_VALUE = re.compile(r"\w+")


def modules() -> Iterator[pathlib.Path]:
    """Yield the modules of both packages."""
    for package in ("sriov_rt", "sriov_rt_tempest_plugin"):
        yield from sorted((CHECKOUT / package).rglob("*.py"))


def first_lines(tree: ast.AST) -> Iterator[str]:
    """Yield the first line of each docstring."""
    for node in ast.walk(tree):
        if isinstance(
            node,
            ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
        ):
            yield (ast.get_docstring(node) or "").partition("\n")[0]


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield each name that a module gives to something."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.ExceptHandler(name=str(name))
            ):
                yield name


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield each constant text that is neither a docstring nor one word."""
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and not _VALUE.fullmatch(node.value)
        ):
            yield node.value


class Read(NamedTuple):
    """Texts and names of a module."""

    texts: tuple[str, ...]
    first_lines: tuple[str, ...]
    names: frozenset[str]


@functools.cache
def read(path: pathlib.Path) -> Read:
    """Parse a module once for all tests."""
    tree = ast.parse(path.read_text())
    return Read(
        tuple(texts(tree)), tuple(first_lines(tree)), frozenset(defined(tree))
    )


class ProseTest(unittest.TestCase):
    def test_operators_read_no_word_of_ours(self) -> None:
        for path in modules():
            for text in read(path).texts:
                with self.subTest(path=str(path), text=text):
                    self.assertNotRegex(text, _WORDS)

    def test_pages_have_no_word_of_ours(self) -> None:
        for path in (
            CHECKOUT / "README.rst",
            CHECKOUT / "devstack/README.rst",
            *sorted((CHECKOUT / "doc/source").rglob("*.rst")),
        ):
            # Literals are values and names, which stay.
            text = re.sub(r"``[^`]+``", "", path.read_text())
            with self.subTest(path=str(path)):
                self.assertEqual([], _WORDS.findall(text))

    def test_first_lines_have_no_word_of_ours(self) -> None:
        for path in modules():
            for line in read(path).first_lines:
                with self.subTest(path=str(path), line=line):
                    self.assertNotRegex(line, _WORDS)
                    self.assertNotRegex(line, _FIRST)

    def test_first_lines_are_no_fragments(self) -> None:
        for path in modules():
            for line in read(path).first_lines:
                with self.subTest(path=str(path), line=line):
                    self.assertNotRegex(line, _FRAGMENT)

    def test_names_have_no_word_of_ours(self) -> None:
        for path in modules():
            names = {path.stem, *read(path).names}
            for name in sorted(names):
                if (path.name, name) in _KEYS:
                    continue
                with self.subTest(path=str(path), name=name):
                    self.assertNotRegex(name, _NAMES)

    def test_each_kind_of_name_is_looked_at(self) -> None:
        code = """
class told:
    def asked(self, rest, *told_rest, **told_held):
        self.home = held = rest
    async def anew(self): ...
SETTLE_S: int = 1
hold, (standing,) = for_space = 1, (2,)
with a as wanted: pass
for deaf in (): [here for here in ()]
try: pass
except E as stranger: pass
"""
        found = set(defined(ast.parse(code)))
        self.assertEqual(
            {name for name in found if not _NAMES.search(name)}, {"self"}
        )
        self.assertEqual(17, len(found))

    def test_each_module_has_a_first_line(self) -> None:
        for path in modules():
            with self.subTest(path=str(path)):
                self.assertTrue(read(path).first_lines[0])
