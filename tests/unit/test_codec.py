# SPDX-License-Identifier: Apache-2.0

import dataclasses
import enum
import unittest

from sriov_rt import codec


class Word(enum.StrEnum):
    ONE = "one"
    TWO = "two"


@dataclasses.dataclass(frozen=True)
class Said:
    word: Word
    other: Word | None
    pairs: tuple[tuple[str, str], ...]


class EnumerationTest(unittest.TestCase):
    def test_its_words_are_read_and_no_others(self):
        said = Said(Word.TWO, None, (("a", "b"),))
        plain = codec.to_plain(said)
        self.assertEqual("two", plain["word"])
        again = codec.from_plain(Said, plain)
        self.assertEqual(said, again)
        self.assertIs(Word, type(again.word))
        for value in ("three", 2, None, ["two"]):
            with self.subTest(value=value):
                with self.assertRaises(codec.SchemaError) as caught:
                    codec.from_plain(Said, {**plain, "word": value})
                self.assertEqual("word", caught.exception.path)
                self.assertIn("one, two", str(caught.exception))
