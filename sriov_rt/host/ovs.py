# SPDX-License-Identifier: Apache-2.0

"""CPUs of Open vSwitch's PMD threads, from its database.

The threads poll whether packets come or not. The mask counts before any of
them runs: the first DPDK port starts one on each of its CPUs.
"""

import json
import socket
import time

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import MAX_CPUS
from sriov_rt.parse.cpulist import CpuSet

#: Socket of ovsdb-server, for root and its own group.
SOCKET = "run/openvswitch/db.sock"

#: Time limit of the database's answer, s, and the longest answer, bytes.
ANSWER_S = 1.0
MAX_ANSWER = 64 * 1024

#: The request, RFC 7047 section 4.1.3.
_REQUEST = {
    "method": "transact",
    "params": [
        "Open_vSwitch",
        {
            "op": "select",
            "table": "Open_vSwitch",
            "where": [],
            "columns": ["other_config"],
        },
    ],
    "id": 0,
}

_MASK = "pmd-cpu-mask"


def pmd_cpus(root: Root) -> CpuSet | None | Unknown:
    """Return the CPUs of ``other_config:pmd-cpu-mask``.

    :returns: None if there is no Open vSwitch, or it has no mask.
    """
    if root.exists(SOCKET) is False or not root.is_running():
        return None
    try:
        answer = _ask(str(root.locate(SOCKET)))
        (row,) = json.loads(answer)["result"][0]["rows"]
        mask = dict(row["other_config"][1]).get(_MASK)
        if mask is None:
            return None
        bits = int(mask, 16)
    except OSError as error:
        return Unknown(f"/{SOCKET}: {error.strerror or error}")
    except (ValueError, TypeError, LookupError, RecursionError):
        return Unknown(f"/{SOCKET}: not an answer of Open vSwitch's")
    if not 0 <= bits < 1 << MAX_CPUS:
        return Unknown(f"/{SOCKET}: {_MASK} is no mask of CPUs")
    return CpuSet.of_bits(bits)


def _ask(path: str) -> bytes:
    """Return the answer of the database.

    :raises OSError: if there is none in time.
    """
    deadline = time.monotonic() + ANSWER_S
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(path)
        connection.sendall(json.dumps(_REQUEST).encode())
        while not _is_whole(answer):
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = connection.recv(MAX_ANSWER)
            answer += piece
            if not piece or len(answer) > MAX_ANSWER:
                break
    return answer


def _is_whole(answer: bytes) -> bool:
    # JSON text has no end marker (RFC 7047 section 4).
    try:
        json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return True
