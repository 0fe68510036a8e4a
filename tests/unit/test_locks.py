# SPDX-License-Identifier: Apache-2.0

"""What a lock among threads guards is touched with the lock alone.

A race that is lost once a month fails in no test that runs it. So the code is
read: each lock has a row here that says what it guards.
"""

import ast
import unittest
from collections.abc import Iterator

from tests.unit.documented_host import ROOT

PACKAGE = ROOT / "sriov_rt"

#: Module, class ("-" for none) and name of each lock, to what it guards:
#: attributes, and functions that are called with it. What has a star is read
#: without it, too: its reader gets the old value or the new one.
GUARDED = {
    "agent/audit.py Audit _lock": "_facts _found",
    "agent/service.py Agent _reporting": "_kernel* _report",
    "kubevirt/node_hook.py NodeHook _lock": "_at _start _stop _prepare "
    "_prepare_alone _clean _clean_alone",
    "labels/service.py Labels _lock": "_stopped _last_known.apply "
    "_last_known.due _last_known.record",
    "labels/service.py Labels _writing": "_last_known.write "
    "_feature_file.remove _feature_file.update",
    "magnum/hosts.py - _ONE_AT_A_TIME": "_of_process",
    "neutron/ports.py Ports _lock": "_touched _resync",
    "neutron/this_host.py ThisHost _looking": "_look_for_driver _driver "
    "_driver_at _missing",
    "neutron/vf_cleaning.py VfCleaner _lock": "_slots _unsure _busy _forget "
    "_write_down",
    "neutron/vf_cleaning.py VfCleaner _turn": "_check _set_right _clean "
    "_clean_now",
    "nova/local_host.py LocalHost _lock": "_facts _observed _observing",
    "scheduler/facts_table.py FactsTable _lock": "_entries* _bytes "
    "_has_room _fits _size_of _drop",
    "scheduler/listener.py ReportRequests _lock": "_hosts _all",
    "scheduler/worker.py - _ONE_AT_A_TIME": "_of_process",
    "scheduler/worker.py Worker _lock": "_listener _thread* _began*",
    "service/reconciler.py Reconciler _lock": "_desired _final",
    "service/worker.py Worker _lock": "_due",
    "vif/lock.py Locks _mutex": "_turns* turn.users",
    "vif/privsep.py - _restart_lock": "vif_plug.stop",
}

#: Those that are taken in one method and given back in another, and by what
#: they are tested.
HANDED_ON = {"vif/lock.py _Turn lock": "tests/unit/vif/test_lock.py"}

_MADE = {"threading.Lock()", "threading.RLock()"}

#: Methods that change what they are called on.
_CHANGES = {"add", "clear", "discard", "pop", "remove", "setdefault", "update"}


def scopes() -> Iterator[tuple[str, str, ast.AST]]:
    """Yield each module that makes locks, with "-", and its classes."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if any(each in text for each in _MADE):
            name, tree = str(path.relative_to(PACKAGE)), ast.parse(text)
            classes = [x for x in tree.body if isinstance(x, ast.ClassDef)]
            tree.body = [x for x in tree.body if x not in classes]
            yield name, "-", tree
            for each in classes:
                yield name, each.name, each


def made(scope: ast.AST) -> set[str]:
    """Return the locks that a scope makes."""
    return {
        ast.unparse(each.targets[0]).rpartition(".")[2]
        for each in ast.walk(scope)
        if isinstance(each, ast.Assign) and ast.unparse(each.value) in _MADE
    }


def text(node: ast.AST) -> str:
    return ast.unparse(node).removeprefix("self.")


class Reader:
    """Finds what is touched without its lock.

    :ivar seen: which names there are.
    :ivar free: where one is touched without the lock.
    """

    def __init__(self, lock: str, guarded: str) -> None:
        self._lock = lock
        self._named = {each.rstrip("*") for each in guarded.split()}
        self._readable = {x[:-1] for x in guarded.split() if x[-1] == "*"}
        self.seen: set[str] = set()
        self.free: list[str] = []

    def read(self, node: ast.AST, held: bool, writes: bool = False) -> None:
        """Read a part of a scope.

        :param held: whether it has the lock.
        :param writes: whether it changes what it names.
        """
        if isinstance(node, ast.FunctionDef):
            # Nobody else has an object that is being made.
            held = node.name in self._named | {"__init__"}
        elif isinstance(node, ast.With):
            held = held or any(self._takes(x.context_expr) for x in node.items)
        elif isinstance(node, ast.Try):
            held = held or any(
                text(each) == f"{self._lock}.release()"
                for each in node.finalbody
            )
        elif isinstance(node, (ast.Attribute, ast.Name)):
            self._touch(node, held, writes)
        inner = isinstance(node, ast.Subscript) and not isinstance(
            node.ctx, ast.Load
        )
        inner |= isinstance(node, ast.Attribute) and node.attr in _CHANGES
        for each in ast.iter_child_nodes(node):
            self.read(each, held, inner)

    def _takes(self, node: ast.AST) -> bool:
        return text(node).partition("(")[0] == self._lock

    def _touch(
        self, node: ast.Attribute | ast.Name, held: bool, writes: bool
    ) -> None:
        name = text(node)
        if name not in self._named:
            return
        self.seen.add(name)
        writes = writes or not isinstance(node.ctx, ast.Load)
        if not held and (writes or name not in self._readable):
            self.free.append(f"line {node.lineno}: {name}")


class LocksTest(unittest.TestCase):
    def test_each_lock_has_a_row(self) -> None:
        found = {
            f"{module} {name} {lock}"
            for module, name, scope in scopes()
            for lock in made(scope)
        }
        # One for each VF; VfCleaner._turn gives it.
        rows = {x for x in GUARDED if not x.endswith("_turn")}
        self.assertEqual(found, rows | HANDED_ON.keys())
        for each in HANDED_ON.values():
            self.assertTrue((ROOT / each).exists())

    def test_what_it_guards_is_touched_with_it(self) -> None:
        by_place = {f"{x} {y}": scope for x, y, scope in scopes()}
        for row, guarded in GUARDED.items():
            place, _, lock = row.rpartition(" ")
            reader = Reader(lock, guarded)
            for each in ast.iter_child_nodes(by_place[place]):
                reader.read(each, held=False)
            with self.subTest(row):
                self.assertEqual([], reader.free)
                names = {each.rstrip("*") for each in guarded.split()}
                self.assertEqual(names, reader.seen)
