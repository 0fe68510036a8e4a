# SPDX-License-Identifier: Apache-2.0

"""TCP ports that stay the same while a control plane comes and goes."""

import json
import pathlib
import socket
import zlib

from tests.testbed import errors

#: Below Linux's own range for outgoing connections (ip_local_port_range
#: starts at 32768): no client can take a port while its server is away.
_FIRST = 20000
_COUNT = 10000


class Ports:
    """The ports of one state directory, by name.

    :param file: where they are kept.
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file

    def of(self, name: str) -> int:
        """Return the port of a name, the same each time.

        :param name: as in "etcd".
        :raises errors.TestbedError: when no port is free.
        """
        known: dict[str, int] = {}
        if self._file.exists():
            known = json.loads(self._file.read_text())
        if name not in known:
            known[name] = self._free(set(known.values()))
            draft = self._file.with_suffix(".new")
            draft.write_text(json.dumps(known))
            draft.replace(self._file)
        return known[name]

    def _free(self, taken: set[int]) -> int:
        # Two state directories on one machine begin at different places.
        offset = zlib.crc32(str(self._file).encode())
        for step in range(_COUNT):
            port = _FIRST + (offset + step) % _COUNT
            if port not in taken and _bindable(port):
                return port
        raise errors.TestbedError(f"no TCP port above {_FIRST} is free")


def _bindable(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # On all addresses, as NFD's own servers of health and metrics.
            trial.bind(("", port))
        except OSError:
            return False
    return True
