# SPDX-License-Identifier: Apache-2.0

"""Each descriptor that is opened is closed, whatever comes between.

One that leaks at each plug ends a service after weeks, and no test before:
what a test opens ends with it. So the code is read.
"""

import ast
import unittest
from collections.abc import Iterator

from tests.unit.documented_host import ROOT

#: What returns a descriptor, or an object that has to be closed.
OPENS = {
    "_open",
    "descriptor",
    "namespaces.descriptor",
    "namespaces.open_file",
    "open_file",
    "os.dup",
    "os.open",
    "os.pidfd_open",
    "root.open_file",
    "self._open",
    "socket.socket",
}

#: System calls that return one, by their numbers' names.
CALLS = {"_FSMOUNT", "_FSOPEN", "_PIDFD_GETFD"}

#: Functions where it is closed, but not if an error comes between.
ENDING = {"drop_output": "the program ends with it"}


def opens(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    numbers = [ast.unparse(each) for each in node.args[:1]]
    return name in OPENS or (
        name.rpartition(".")[2] == "call" and not CALLS.isdisjoint(numbers)
    )


def opened(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a function gives to what it opens."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and opens(node.value):
            target = node.targets[0]
            if isinstance(target, ast.Tuple):
                target = target.elts[-1]
            yield ast.unparse(target)


def closes(node: ast.AST, name: str) -> bool:
    """Return whether a part of a function closes something."""
    texts = {ast.unparse(x) for x in ast.walk(node) if isinstance(x, ast.Call)}
    return not texts.isdisjoint(
        {f"os.close({name})", f"{name}.close()", f"{name}.detach()"}
    )


def is_closed(function: ast.FunctionDef, name: str) -> bool:
    """Return whether a function closes what it opened, or hands it on."""
    returned = on_error = always = False
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            names = {ast.unparse(each) for each in ast.walk(node.value)}
            returned = returned or name in names
        elif isinstance(node, ast.Try):
            always |= any(closes(each, name) for each in node.finalbody)
            on_error |= any(closes(each, name) for each in node.handlers)
        elif isinstance(node, ast.With):
            managed = {ast.unparse(each.context_expr) for each in node.items}
            always = always or name in managed
        elif isinstance(node, ast.Call):
            always |= ast.unparse(node).endswith(f"callback(os.close, {name})")
    if function.name in ENDING or returned:
        on_error |= closes(function, name)
    return always or on_error


class DescriptorsTest(unittest.TestCase):
    def test_each_is_closed(self) -> None:
        count = 0
        for path in sorted((ROOT / "sriov_rt").rglob("*.py")):
            text = path.read_text()
            if not any(f"{each}(" in text for each in OPENS):
                continue
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.FunctionDef):
                    continue
                for name in opened(node):
                    count += 1
                    with self.subTest(path.name, function=node.name):
                        self.assertTrue(is_closed(node, name), name)
        self.assertGreater(count, 25)
