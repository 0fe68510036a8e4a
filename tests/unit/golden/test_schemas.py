# SPDX-License-Identifier: Apache-2.0

"""Schemas that others check documents by, against documents of ours."""

import copy
import json
import unittest

import jsonschema

from sriov_rt import documents
from tests import schemas
from tests.unit import builders
from tests.unit import documented_host
from tests.unit.golden.test_golden import HERE

#: How the name of a golden file begins, to its schema.
GOLDEN = {
    "certificate": "facts/certificate",
    "facts": "facts/facts",
    "result": "verify/latency-result",
}


def checker(name):
    """Return what checks a document by a published schema."""
    schema = json.loads(schemas.path(name).read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class SchemasTest(unittest.TestCase):
    def test_those_published_are_those_of_the_code(self):
        for name in schemas.SCHEMAS:
            with self.subTest(name):
                self.assertEqual(
                    schemas.text(name),
                    schemas.path(name).read_text(),
                    "run python -m tests.schemas",
                )

    def test_each_field_has_its_own_description(self):
        for name in schemas.SCHEMAS:
            with self.subTest(name):
                self.assertNotIn(":param", schemas.path(name).read_text())

    def test_documents_of_each_version(self):
        seen = set()
        for path in sorted(HERE.glob("*.json")):
            name = GOLDEN.get(path.name.partition("-")[0])
            if name is None:
                continue
            seen.add(name)
            found = json.loads(path.read_bytes())
            with self.subTest(path.name):
                checker(name).validate(found.get("document", found))
        self.assertEqual(set(GOLDEN.values()), seen)

    def test_documents_of_today(self):
        for name, found in (
            ("facts/facts", builders.realtime_host().to_plain()),
            ("facts/facts", builders.onload_host().to_plain()),
            ("facts/certificate", self.dumped(documented_host.ISSUED)),
            ("verify/disk-result", self.dumped(documented_host.DISK[0])),
            ("verify/network-result", self.dumped(documented_host.NETWORK[2])),
        ):
            with self.subTest(name):
                checker(name).validate(found)

    def dumped(self, value):
        return json.loads(documents.dump(value, 1))

    def test_what_is_no_such_document(self):
        path = HERE / "certificate-2026-11-23.json"
        good = json.loads(path.read_bytes())
        check = checker("facts/certificate")
        self.assertTrue(check.is_valid(good))
        for change in (
            {"schema": 2},
            {"max_latency_us": "19"},
            {"cpus": [{"cpu": 2}]},
            {"conditions": {"SMT": 0}},
        ):
            with self.subTest(change):
                self.assertFalse(check.is_valid(good | change))
        for key in ("schema", "host", "expires_at", "tools"):
            bad = copy.deepcopy(good)
            del bad[key]
            self.assertFalse(check.is_valid(bad), key)
        facts = builders.realtime_host().to_plain()
        check = checker("facts/facts")
        for isolated, valid in (
            ("2-3", True),
            ({"_unknown": "no such file"}, True),
            ({"_unknown": "x", "more": 1}, False),
            ("2 to 3", False),
            ([2, 3], False),
        ):
            facts["cpus"]["isolated"] = isolated
            self.assertEqual(valid, check.is_valid(facts), isolated)
