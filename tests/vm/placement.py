# SPDX-License-Identifier: Apache-2.0

"""Placement of one device, over HTTP, as far as 'device clean' asks it.

It is for a machine that has nothing of OpenStack: ``python -I this.py PORT
NAME``. The device is reserved and of nobody; POST /reserve reserves it again.
"""

import http.server
import json
import sys
from typing import Any

ROOT = "11111111-1111-4111-8111-111111111111"
UUID = "22222222-2222-4222-8222-222222222222"
CLASS = "CUSTOM_PCI_8086_10C9"


class Placement(http.server.BaseHTTPRequestHandler):
    """Answers for the provider of the device."""

    name = ""
    generation = 3
    reserved = 1

    def do_GET(self) -> None:
        """Answer what is read."""
        path, _, query = self.path.partition("?")
        cls = Placement
        if path == "/resource_providers" and "in_tree" in query:
            self._providers(UUID, cls.name, ROOT)
        elif path == "/resource_providers":
            self._providers(ROOT, cls.name.rpartition("_")[0], None)
        elif path.endswith("/allocations"):
            self._generation(allocations={})
        else:
            inventory = {
                "total": 1,
                "reserved": cls.reserved,
                "min_unit": 1,
                "max_unit": 1,
                "step_size": 1,
                "allocation_ratio": 1.0,
            }
            self._generation(inventories={CLASS: inventory})

    def do_PUT(self) -> None:
        """Take an inventory, if its generation is the last one."""
        length = int(self.headers["Content-Length"])
        found = json.loads(self.rfile.read(length))
        if found["resource_provider_generation"] != Placement.generation:
            self._answer({}, 409)
            return
        Placement.reserved = found["reserved"]
        Placement.generation += 1
        self._answer(found)

    def do_POST(self) -> None:
        """Reserve the device, as nova-compute does."""
        Placement.reserved = 1
        Placement.generation += 1
        self._answer({})

    def _providers(self, uuid: str, name: str, parent: str | None) -> None:
        one = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
        self._answer({"resource_providers": [one]})

    def _generation(self, **parts: Any) -> None:
        generation = Placement.generation
        self._answer({**parts, "resource_provider_generation": generation})

    def _answer(self, found: Any, status: int = 200) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    Placement.name = sys.argv[2]
    address = ("127.0.0.1", int(sys.argv[1]))
    http.server.ThreadingHTTPServer(address, Placement).serve_forever()
