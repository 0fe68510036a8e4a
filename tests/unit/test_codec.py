# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


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
