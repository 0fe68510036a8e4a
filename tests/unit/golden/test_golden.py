# SPDX-License-Identifier: Apache-2.0

"""Documents of earlier versions, which have to load for ever.

The files were written by the code of the day in their names. They are never
changed, and never written again by a later version: a version that adds to a
document or changes it adds a file. Their lists are not empty, so that a field
without a default is found at any depth.
"""

import dataclasses
import json
import pathlib
import typing
import unittest

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.facts import certificate
from sriov_rt.host import maintenance
from sriov_rt.labels import store
from sriov_rt.nic import tenancy
from sriov_rt.placement import host_traits
from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.scheduler.listener import Endpoint
from sriov_rt.scheduler.verdicts import Verdicts
from sriov_rt.tuning import records as tuning_records
from sriov_rt.verify import results
from sriov_rt.vif import records
from tests.unit import builders
from tests.unit.scheduler.fakes import states

HERE = pathlib.Path(__file__).parent

#: Messages of agents, oldest first.
MESSAGES = tuple(sorted(HERE.glob("facts-*.json")))

#: What the scheduler of the last release reads of a message; see _read().
READER = HERE / "reader-2026-11-23.json"

#: What is called otherwise by now: a loader reads the old name.
RENAMED = {"space": "namespace_id", "asked": "request"}

Loader = typing.Callable[[pathlib.Path], typing.Any]


def _facts(path: pathlib.Path) -> facts.HostFacts:
    return facts.from_plain(json.loads(path.read_bytes())["document"])


def _certificate(path: pathlib.Path) -> certificate.Certificate:
    # Whether one counts is another question than whether it can be read.
    return documents.load(
        certificate.Certificate,
        path.read_bytes(),
        certificate.MAX_FILE,
        certificate.SCHEMA_VERSION,
    )


#: How the name of a file begins, to what reads it.
LOADERS: typing.Mapping[str, Loader] = {
    "certificate": _certificate,
    "facts": _facts,
    "hold": lambda path: documents.load(
        facts.HostHold,
        path.read_bytes(),
        maintenance.MAX_FILE,
        maintenance.SCHEMA_VERSION,
    ),
    "labels": lambda path: store.parse(path.read_bytes()),
    "record": lambda path: records.parse(path.read_bytes()),
    "result": results.read,
    "tuning": lambda path: documents.load(
        tuning_records.Record,
        path.read_bytes(),
        maintenance.MAX_FILE,
        tuning_records.SCHEMA_VERSION,
    ),
    "vf": lambda path: tenancy.parse(path.read_bytes()),
}


def _lost(
    old: typing.Any, new: typing.Any, path: str = ""
) -> typing.Iterator[str]:
    """Yield what stands in a document and not in what was made of it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{path}.{key}"
            else:
                yield from _lost(value, new[key], f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield path
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _lost(one, other, f"{path}[{number}]")
    elif old != new:
        yield path


class OldDocumentsTest(unittest.TestCase):
    def test_each_loads_and_nothing_of_it_is_lost(self):
        seen = set()
        for path in sorted(HERE.glob("*.json")):
            if path == READER:
                continue
            with self.subTest(path=path.name):
                name = path.name.partition("-")[0]
                seen.add(name)
                plain = json.loads(path.read_bytes())
                plain = plain.get("document", plain)
                del plain["schema"]
                if name == "record":
                    plain = {
                        RENAMED.get(key, key): value
                        for key, value in plain.items()
                    }
                found = LOADERS[name](path)
                self.assertIsNotNone(found)
                self.assertEqual([], list(_lost(plain, codec.to_plain(found))))
        self.assertEqual(set(LOADERS), seen)


class OldAgentTest(unittest.TestCase):
    """Messages of earlier agents, taken in by this scheduler."""

    def setUp(self):
        self.table = FactsTable(10, 60.0)
        self.wanted: list[str] = []
        self.endpoint = Endpoint(self.table, self.wanted.append)

    def take_in(self, path: pathlib.Path) -> None:
        message = json.loads(path.read_bytes())
        message["document"] = json.dumps(message["document"])
        with self.assertNoLogs("sriov_rt", "WARNING"):
            self.endpoint.facts({}, **message)
        del message["document"]
        self.endpoint.heartbeat({}, **message)

    def test_their_hosts_are_known_and_serve_realtime(self):
        for path in MESSAGES:
            with self.subTest(path=path.name):
                self.table.forget("rt-1")
                self.take_in(path)
                self.assertEqual([], self.wanted)
                verdicts = Verdicts(self.table, 60.0)
                for specs in (
                    host_traits.TRAITS[host_traits.REALTIME],
                    {"sriov_rt:max_latency_us": "12"},
                    {"sriov_rt:nic": "intel", "sriov_rt:vif": "vf"},
                ):
                    if specs.keys() == {"sriov_rt:max_latency_us"} and (
                        path.name == "facts-2026-11-21-onload.json"
                    ):
                        continue  # It has no certificate.
                    asked = request.parse(specs)
                    (host,) = states("rt-1")
                    found = verdicts.why_not(asked, host)
                    self.assertEqual((), found)


def _read(value: typing.Any, shape: typing.Any, path: str = "") -> None:
    """Read a JSON value as an earlier version does.

    :param shape: made of that version's type hints.
    :raises AssertionError: where that version raises a SchemaError.
    """
    if value is None and shape.get("null"):
        return
    if isinstance(value, dict) and value.keys() == {codec.UNKNOWN_KEY}:
        assert shape.get("unknown"), f"{path}: unknown"
        return
    kinds: typing.Mapping[str, tuple[type, ...]] = {
        "object": (dict,),
        "map": (dict,),
        "list": (list,),
        "str": (str,),
        "cpus": (str,),
        "bool": (bool,),
        "int": (int,),
        "float": (int, float),
    }
    (kind,) = (k for k in ("object", "map", "list", "is") if k in shape)
    name = shape["is"] if kind == "is" else kind
    assert type(value) in kinds[name], f"{path}: {name} expected"
    if kind == "object":
        for field, each in shape["object"].items():
            if field in value:
                _read(value[field], each, f"{path}.{field}")
            else:
                assert not each["required"], f"{path}.{field}: missing"
    elif kind == "map":
        for key, each in value.items():
            _read(each, shape["map"], f"{path}.{key}")
    elif kind == "list":
        for each in value:
            _read(each, shape["list"], path)


def _newly_required(
    cls: typing.Any, shape: typing.Any, path: str = ""
) -> typing.Iterator[str]:
    """Yield the fields that today need to be there, and did not in a version.

    :param cls: a dataclass of today.
    :param shape: what that version has of it.
    """
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        name = f"{path}.{field.name}"
        known = shape["object"].get(field.name, {"required": False})
        if field.default is dataclasses.MISSING and not known["required"]:
            yield name
        while "list" in known or "map" in known:
            known = known.get("list", known.get("map"))
        for each in _leaves(hints[field.name]):
            if dataclasses.is_dataclass(each) and "object" in known:
                yield from _newly_required(each, known, name)


def _leaves(hint: typing.Any) -> typing.Iterator[typing.Any]:
    arguments = typing.get_args(hint)
    if not arguments and hint is not codec.Unknown:
        yield hint
    for each in arguments:
        yield from _leaves(each)


class OldSchedulerTest(unittest.TestCase):
    """Messages of this agent, read as the last release's scheduler does."""

    def setUp(self):
        self.shape = json.loads(READER.read_bytes())

    def test_it_reads_what_this_agent_sends(self):
        for path in MESSAGES:
            _read(codec.to_plain(_facts(path)), self.shape)
        _read(builders.realtime_host().to_plain(), self.shape)
        _read(builders.onload_host().to_plain(), self.shape)

    def test_it_reads_what_this_agent_could_not_read(self):
        for part in facts.PARTS:
            host = builders.realtime_host().to_plain()
            host[part] = codec.to_plain(facts.unknown(part, "no such file"))
            _read(host, self.shape)

    def test_each_fact_since_then_has_a_default(self):
        found = list(_newly_required(facts.HostFacts, self.shape))
        self.assertEqual([], found)

    def test_its_version_of_messages_is_taken(self):
        self.assertEqual("1.0", Endpoint.target.version)
        self.assertEqual(1, facts.SCHEMA_VERSION)
