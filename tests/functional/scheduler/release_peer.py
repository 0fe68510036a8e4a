# SPDX-License-Identifier: Apache-2.0

"""The agent's messages and records of ports, by the release that runs this.

It reads what the other release has written, and writes what that one shall
read: JSON from standard input to standard output. test_mixed_releases runs it
once with each.
"""

import dataclasses
import json
import sys
import types
from typing import Any

import sriov_rt
from sriov_rt import codec
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.exceptions import SriovRtError
from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.scheduler.listener import Endpoint
from sriov_rt.scheduler.verdicts import Verdicts
from sriov_rt.vif import records
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import State
from tests.unit import builders

_MAX_HOSTS = 10
_MAX_AGE_S = 60.0

_REALTIME = request.parse(
    {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
)
_PORT = "6b1d0a2c-3f5e-4c7a-9d8b-1e2f3a4b5c6d"
_OWNER = "8f6f0d1e-2c6b-4a43-9d5b-1f2a3b4c5d6e"


def messages() -> list[dict[str, Any]]:
    """Return the reports of a host that is fit, and of one that is not."""
    unfit = {"isolated": parse_cpu_list("2")}
    return [
        _message(builders.realtime_host()),
        _message(builders.realtime_host(cpus=unfit)),
    ]


def _message(found: facts.HostFacts) -> dict[str, Any]:
    return {
        "host": found.host,
        "node": found.node,
        "digest": found.digest(),
        "document": json.dumps(found.to_plain()),
    }


def decisions(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a worker decides by each report, one after the other.

    :returns: the codes of the reasons against a realtime instance, and the
        hosts that do not know their digest again in the next heartbeat.
    """
    table = FactsTable(_MAX_HOSTS, _MAX_AGE_S)
    verdicts = Verdicts(table, _MAX_AGE_S)
    unknown: list[str] = []
    endpoint = Endpoint(table, unknown.append)
    decided = []
    for report in reports:
        endpoint.facts({}, **report)
        names = ("host", "node", "digest")
        endpoint.heartbeat({}, **{name: report[name] for name in names})
        host = types.SimpleNamespace(host=report["host"])
        codes = {each.code for each in verdicts.why_not(_REALTIME, host)}
        decided.append({"codes": sorted(codes), "unknown": list(unknown)})
    return decided


def written() -> list[str]:
    """Return the file of a port in each state."""
    plug = validation.checked(
        Plug(
            port=_PORT,
            owner=_OWNER,
            kind=Kind.MACVTAP,
            mode="bridge",
            physical_network="physnet2",
            mac="52:54:00:12:34:56",
            vlan=100,
        )
    )
    names = {each.name for each in dataclasses.fields(records.Record)}
    renamed = (
        {"request": plug, "namespace_id": None}
        if "request" in names
        else {"asked": plug, "space": None}
    )
    found = [
        records.Record(
            boot="6c1f3a1e-0b7d-4a53-8f0e-2f9b1c7d4e5a",
            port=_PORT,
            owner=_OWNER,
            kind=Kind.MACVTAP,
            mode="bridge",
            interface="srt6b1d0a2c-3f",
            namespace=None,
            index=17,
            parent="enp2s0v2",
            parent_index=9,
            vf="0000:02:10.4",
            nic="enp2s0",
            mac="52:54:00:12:34:56",
            accelerated=False,
            state=state,
            reason="" if state is not State.QUARANTINED else "not seen",
            **renamed,
        )
        for state in State
        # That is what 'vif show' finds of one; no file has it.
        if state != "drifted"
    ]
    return [
        json.dumps({"schema": records.SCHEMA_VERSION, **codec.to_plain(each)})
        for each in found
    ]


def read(files: list[str]) -> list[dict[str, Any] | None]:
    """Return records as this release understands them.

    :returns: None for each that it refuses.
    """
    return [_read(each.encode()) for each in files]


def _read(data: bytes) -> dict[str, Any] | None:
    try:
        return codec.to_plain(records.parse(data))
    except SriovRtError:
        return None


def main() -> None:
    """Answer to what standard input has."""
    given = json.load(sys.stdin)
    json.dump(
        {
            "package": sriov_rt.__file__,
            "messages": messages(),
            "decisions": decisions(given["messages"]),
            "schema": records.SCHEMA_VERSION,
            "written": written(),
            "read": read(given["written"]),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
