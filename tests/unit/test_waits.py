# SPDX-License-Identifier: Apache-2.0

"""What waits for a program, a server or a thread has an end.

Where it has none, a hook keeps a guest from starting, or a service from
ending, for ever; a test that would see it waits as long. So the code is read.
"""

import ast
import re
import unittest
from collections.abc import Iterator

from tests.unit.documented_host import ROOT

PACKAGE = ROOT / "sriov_rt"

#: Calls without an argument that wait without an end, and why each may.
ENDLESS = {
    "cmd/progress.py self._thread.join": "it looks at _ended once a second",
    "scheduler/listener.py self._pending.wait": "stop() sets it",
    "scheduler/worker.py thread.join": "its listener is stopped before",
    "service/messaging.py server.wait": "it is stopped before, and woken",
    "service/worker.py self._thread.join": "_ended was waited for, in time",
    "verify/network.py child.wait": "it was killed before",
    "verify/network.py thread.join": "each stream's program has a limit",
    "verify/process.py self._child.wait": "its output has ended, in time",
}

#: Modules whose sockets wait for nobody, and why not.
UNASKED = {
    "host/compute_driver_socket.py": "it has a name alone",
    "kernel/announce.py": "it sends",
    "kernel/namespaces.py": "it tells its namespace alone",
    "kubevirt/server.py": "it probes a socket of its own, as it starts",
    "vif/lock.py": "it has a name alone",
}

#: What bounds a request of each client, as it is called.
CLIENTS = {
    "call": "timeout",
    "call_api": "_request_timeout",
    "list_node": "**self._request",
    "run": "timeout",
    "stream": "**self._request",
}

#: Those of them that are somebody else's.
_RUN = "subprocess.run"


#: Where clients of servers are, and what else may wait.
_CLIENTS = ("kubernetes/", "kubevirt/pod_")
_WAITS = re.compile(r"subprocess\.run|\.(?:join|wait)\(\)")


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Yield the calls of modules that may wait: module, name and call."""
    for path in sorted(PACKAGE.rglob("*.py")):
        where, text = str(path.relative_to(PACKAGE)), path.read_text()
        if where.startswith(_CLIENTS) or _WAITS.search(text):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    yield where, ast.unparse(node.func), node


def is_bounded(node: ast.Call, by: str) -> bool:
    given = {each.arg for each in node.keywords}
    text = {ast.unparse(x.value).partition("(")[0] for x in node.keywords}
    return by in given or by.removeprefix("**") in text


class WaitsTest(unittest.TestCase):
    def test_each_request_has_a_limit(self) -> None:
        found = 0
        for where, name, node in calls():
            last = name.rpartition(".")[2]
            is_client = where.startswith(_CLIENTS)
            if name == _RUN or (last in CLIENTS and is_client):
                found += 1
                with self.subTest(where, line=node.lineno):
                    self.assertTrue(is_bounded(node, CLIENTS[last]))
        self.assertGreater(found, 7)
        text = (PACKAGE / "kubernetes/api.py").read_text()
        self.assertIn('"_request_timeout": (', text)

    def test_what_has_no_limit_has_a_reason(self) -> None:
        found = {
            f"{where} {name}"
            for where, name, node in calls()
            if name.endswith((".join", ".wait"))
            and not node.args
            and not node.keywords
            and not isinstance(getattr(node.func, "value", None), ast.Call)
        }
        self.assertEqual(set(ENDLESS), found)

    def test_each_socket_has_a_limit(self) -> None:
        for path in sorted(PACKAGE.rglob("*.py")):
            where, text = str(path.relative_to(PACKAGE)), path.read_text()
            if "socket.socket(" in text and where not in UNASKED:
                with self.subTest(where):
                    self.assertTrue(
                        ".settimeout(" in text or "SO_RCVTIMEO" in text
                    )
