# SPDX-License-Identifier: Apache-2.0

"""Rooms import only downwards, and only adapters import neighbours."""

import ast
import functools
import pathlib
import re
import subprocess
import sys
import unittest
from collections.abc import Iterator

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "sriov_rt"

#: The contributors' page.
PAGE = PACKAGE.parent / "doc/source/contributor/index.rst"

#: Each room and the other rooms that it may import.
WORDS = {
    "exceptions",
    "parse",
    "codec",
    "documents",
    "request",
    "facts",
    "reason",
}
PURE = WORDS | {"decide"}
MAY_IMPORT = {
    "exceptions": set(),
    "parse": {"exceptions"},
    "codec": {"exceptions", "parse"},
    "documents": {"codec"},
    "request": {"exceptions", "parse"},
    "facts": {"exceptions", "parse", "codec", "documents"},
    "reason": set(),
    "decide": WORDS,
    "deadline": {"exceptions"},
    "config": {"exceptions", "files"},
    "entry_points": set(),
    "files": set(),
    "service": {"exceptions", "config"},
    "placement": PURE | {"service"},
    "kernel": {"exceptions", "parse", "deadline"},
    "host": PURE | {"entry_points"},
    "guest": PURE | {"host", "files"},
    "tuning": PURE | {"host", "guest", "files"},
    "onload": PURE | {"host", "guest", "config"},
    "labels": PURE | {"host", "placement", "files", "config", "entry_points"},
    "nic": PURE | {"kernel", "host", "config", "files", "entry_points"},
    "vif": PURE
    | {"kernel", "host", "nic", "onload", "config", "files", "deadline"},
    "agent": PURE
    | {"host", "guest", "labels", "placement", "service", "files", "config"},
    "verify": PURE | {"kernel", "host", "files"},
    "devices": PURE
    | {"host", "nic", "placement", "agent", "service", "config", "files"},
    "kubernetes": PURE | {"labels", "service", "config"},
    "pods": PURE | {"onload", "kubernetes"},
    "cni": PURE | {"kernel", "nic", "files"},
    "kubevirt": PURE | {"kernel", "host", "guest", "nic", "vif", "cni"},
    "scheduler": PURE | {"service", "onload", "config"},
    "nova": PURE
    | {
        "host",
        "guest",
        "labels",
        "nic",
        "onload",
        "vif",
        "scheduler",
        "service",
        "config",
        "deadline",
    },
    "neutron": PURE
    | {"kernel", "host", "nic", "vif", "service", "config", "files"}
    | {"deadline"},
    "magnum": PURE | {"placement", "scheduler"},
    "libvirt": PURE | {"host", "guest", "nic", "vif"},
    "vdsm": PURE | {"host", "guest", "libvirt", "files"},
    "opts": {
        "magnum",
        "nova",
        "agent",
        "devices",
        "labels",
        "kubernetes",
        "neutron",
        "nic",
        "onload",
        "placement",
        "scheduler",
        "config",
        "vif",
    },
    "cmd": PURE
    | {
        "devices",
        "kernel",
        "host",
        "guest",
        "tuning",
        "labels",
        "nic",
        "onload",
        "vif",
        "agent",
        "placement",
        "scheduler",
        "service",
        "config",
        "files",
        "verify",
        "kubernetes",
        "pods",
        "cni",
        "kubevirt",
        "nova",
        "neutron",
        "magnum",
    },
}
#: Each neighbour's package, and the room that may import it.
NEIGHBOURS = {
    "pyroute2": "kernel",
    "nova": "nova",
    "neutron": "neutron",
    "neutron_lib": "neutron",
    "magnum": "magnum",
    "magnum_capi_helm": "magnum",
    "kubernetes": "kubernetes",
    "grpc": "kubevirt",
}


def _modules() -> Iterator[tuple[str, pathlib.Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != "__init__":
            yield room, path


@functools.cache
def _imports(path: pathlib.Path) -> tuple[str, ...]:
    return tuple(_read_imports(path))


def _read_imports(path: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


#: Statements whose body may not be run.
_CONDITIONAL = (ast.If, ast.While, ast.For, ast.AsyncFor, ast.Match)


def _names(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the names that a statement uses, in the order of evaluation.

    :returns: the name, and whether it is certainly overwritten.
    """
    if isinstance(node, ast.Name):
        yield node.id, isinstance(node.ctx, ast.Store)
        return
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign):
        children = [node.value, *node.targets]
    elif isinstance(node, ast.AugAssign):
        children = [node.value]
        if isinstance(node.target, ast.Name):
            yield node.target.id, False
    elif isinstance(node, ast.AnnAssign):
        children = [node.value, node.target] if node.value else []
    for child in children:
        for name, written in _names(child):
            scope = isinstance(
                node, (*_CONDITIONAL, ast.comprehension, ast.Lambda)
            )
            if not (written and scope):
                yield name, written


def _overwritten(source: str) -> Iterator[tuple[str, str]]:
    """Yield functions and their parameters that are overwritten unread."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = node.args
        names = {
            each.arg
            for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)
        }
        for statement in node.body:
            for name, written in _names(statement):
                if name in names and written:
                    yield node.name, name
                names.discard(name)


class LayersTest(unittest.TestCase):
    def test_rooms_import_downwards(self):
        for room, path in _modules():
            for name in _imports(path):
                parts = name.split(".")
                if parts[0] != "sriov_rt" or parts[1] == room:
                    continue
                with self.subTest(module=str(path), imports=name):
                    self.assertIn(parts[1], MAY_IMPORT[room])

    def test_only_adapters_import_their_neighbour(self):
        for room, path in _modules():
            for name in _imports(path):
                top = name.split(".")[0]
                if top in NEIGHBOURS:
                    with self.subTest(module=str(path), imports=name):
                        self.assertEqual(room, NEIGHBOURS[top])

    def test_every_room_is_known_here(self):
        self.assertEqual({room for room, _ in _modules()}, set(MAY_IMPORT))

    def test_the_contributors_table_has_every_room_in_one_line(self):
        _, table, _ = re.split(
            r"^=+ =+\n", PAGE.read_text(), maxsplit=2, flags=re.MULTILINE
        )
        rooms = re.findall(r"^(\w+) +\S", table, re.MULTILINE)
        self.assertEqual(len(table.splitlines()), len(rooms))
        self.assertEqual(
            sorted({room for room, _ in _modules()}), sorted(rooms)
        )


class ParametersTest(unittest.TestCase):
    def test_no_function_overwrites_a_parameter_before_it_reads_it(self):
        for _, path in _modules():
            with self.subTest(module=str(path)):
                self.assertEqual([], list(_overwritten(path.read_text())))

    def test_what_counts_as_overwritten(self):
        for body, expected in (
            ("a = b", ["a"]),
            ("a, c = b", ["a"]),
            ("a: int = b", ["a"]),
            ("with b as a: pass", ["a"]),
            ("try:\n  a = b\nfinally: pass", ["a"]),
            ("c = b; a = c; print(a)", ["a"]),
            ("a = a or b", []),
            ("a += b", []),
            ("a: int", []),
            ("if b: a = 1", []),
            ("for a in b: pass", []),
            ("[a for a in b]", []),
            ("print(a); a = b", []),
            ("def inner(): return a\na = b", []),
        ):
            lines = "\n".join(f"  {each}" for each in body.split("\n"))
            with self.subTest(body):
                self.assertEqual(
                    [("f", each) for each in expected],
                    list(_overwritten(f"def f(a, b):\n{lines}\n")),
                )


class OptionsTest(unittest.TestCase):
    def test_options_are_read_without_the_message_queue(self):
        # oslo.messaging imports eventlet, which prints a warning unless
        # threads.choose() is called before.
        rooms = ("agent", "devices", "kubernetes", "labels", "scheduler")
        names = ", ".join(f"sriov_rt.{each}.options" for each in rooms)
        done = subprocess.run(
            (
                *(sys.executable, "-c"),
                f"import sys, {names}, sriov_rt.devices.settings\n"
                "sys.exit('oslo_messaging' in sys.modules)",
            ),
            check=False,
        )
        self.assertEqual(0, done.returncode)
