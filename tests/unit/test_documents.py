# SPDX-License-Identifier: Apache-2.0

"""Documents that are read from a disk, whatever the file contains."""

import dataclasses
import json
import unittest

from sriov_rt import codec
from sriov_rt import documents


@dataclasses.dataclass(frozen=True)
class Said:
    name: str
    pairs: tuple[tuple[str, int], ...] = ()


GOOD = {"schema": 1, "name": "é", "pairs": [["a", 1]]}


class DocumentTest(unittest.TestCase):
    def load(self, data):
        return documents.load(Said, data, 4096, 1)

    def test_a_document(self):
        found = self.load(json.dumps(GOOD).encode())
        self.assertEqual(Said("é", (("a", 1),)), found)

    def test_what_is_dumped_is_loaded(self):
        said = Said("é", (("a", 1),))
        data = documents.dump(said, 1)
        self.assertTrue(data.startswith(b'{"schema":1,'))
        self.assertNotIn(b"\n", data)
        self.assertEqual(said, self.load(data))

    def test_no_other_encoding(self):
        text = json.dumps(GOOD, ensure_ascii=False)
        for name in ("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig"):
            with self.subTest(name), self.assertRaises(codec.SchemaError):
                self.load(text.encode(name))

    def test_a_version_is_a_whole_number(self):
        for version in (True, 1.0, "1", None, [1], 2):
            with (
                self.subTest(version=version),
                self.assertRaises(codec.SchemaError) as caught,
            ):
                self.load(json.dumps(GOOD | {"schema": version}).encode())
            self.assertEqual("schema: 1 expected", str(caught.exception))

    def test_a_pair_has_two_items(self):
        for pairs in ([[]], [["a"]], [["a", 1, 2]], [[1, "a"]], ["ab"], [{}]):
            with (
                self.subTest(pairs=pairs),
                self.assertRaises(codec.SchemaError) as caught,
            ):
                self.load(json.dumps(GOOD | {"pairs": pairs}).encode())
            self.assertEqual("pairs", caught.exception.path)

    def test_half_of_a_surrogate_pair_is_no_text(self):
        for name in ("\ud800", "a\udfffb"):
            with self.subTest(name), self.assertRaises(codec.SchemaError):
                self.load(json.dumps(GOOD | {"name": name}).encode())
