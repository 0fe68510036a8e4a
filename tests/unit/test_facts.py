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

import json
import typing
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt import codec
from sriov_rt import facts
from tests.unit import builders

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")

JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(),
    lambda inner: (
        strategies.lists(inner, max_size=4)
        | strategies.dictionaries(strategies.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


def _paths(plain: typing.Any, at: tuple = ()) -> typing.Iterator[tuple]:
    yield at
    items = ()
    if isinstance(plain, dict):
        items = plain.items()
    elif isinstance(plain, list):
        items = enumerate(plain)
    for key, value in items:
        yield from _paths(value, (*at, key))


class RoundTripTest(unittest.TestCase):
    def test_json_gives_back_what_it_was_given(self):
        host = builders.realtime_host()
        text = json.dumps(host.to_plain())
        self.assertEqual(host, facts.from_json(text))

    def test_unknown_facts_keep_their_reason(self):
        for part in facts.PARTS:
            with self.subTest(part=part):
                spoilt = facts.unknown(part, "no such file")
                plain = codec.to_plain(spoilt)
                again = codec.from_plain(facts.PARTS[part], plain)
                self.assertEqual(spoilt, again)

    def test_keys_of_a_newer_writer_are_passed_over(self):
        plain = builders.realtime_host().to_plain()
        plain["cpus"]["colour"] = "green"
        plain["moons"] = 3
        self.assertEqual(builders.realtime_host(), facts.from_plain(plain))


class RefusalTest(unittest.TestCase):
    def _refused(self, text: str, *words: str) -> None:
        with self.assertRaises(codec.SchemaError) as caught:
            facts.from_json(text)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def _changed(self, *path: str, to: typing.Any) -> str:
        plain = builders.realtime_host().to_plain()
        place = plain
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to
        return json.dumps(plain)

    def test_another_schema_version_names_the_remedy(self):
        self._refused(self._changed("schema", to=2), "one release")

    def test_text_that_is_no_json(self):
        self._refused("{", "not JSON")

    def test_nesting_that_would_exhaust_the_stack(self):
        self._refused("[" * 200_000, "not JSON")

    def test_a_document_that_is_too_long(self):
        self._refused(" " * (facts.MAX_DOCUMENT + 1), "longer")

    def test_a_missing_field_is_named(self):
        plain = builders.realtime_host().to_plain()
        del plain["cpus"]["isolated"]
        self._refused(json.dumps(plain), "cpus.isolated", "missing")

    def test_a_field_that_an_older_agent_does_not_tell_is_unknown(self):
        plain = builders.realtime_host().to_plain()
        del plain["onload"]["library_fits"]
        found = facts.from_json(json.dumps(plain))
        self.assertIn("older", found.onload.library_fits.reason)

    def test_a_truth_is_no_number(self):
        text = self._changed("kernel", "rt_runtime_us", to=True)
        self._refused(text, "kernel.rt_runtime_us")

    def test_a_huge_cpu_list_is_not_expanded(self):
        text = self._changed("cpus", "online", to="0-4000000000")
        self._refused(text, "cpus.online")

    def test_infinite_times(self):
        for number in ("Infinity", "NaN", "1" + "0" * 400):
            plain = json.dumps(builders.realtime_host().to_plain())
            text = plain.replace("1790000000.0", number)
            self._refused(text, "observed_at")

    @hypothesis.given(strategies.data())
    def test_any_value_anywhere_is_read_or_refused(self, data):
        plain = builders.realtime_host().to_plain()
        path = data.draw(strategies.sampled_from(list(_paths(plain))[1:]))
        place = plain
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = data.draw(JSON)
        try:
            facts.from_plain(plain)
        except codec.SchemaError as error:
            self.assertTrue(error.problem)


class DigestTest(unittest.TestCase):
    def test_time_alone_does_not_change_it(self):
        plain = builders.realtime_host().to_plain()
        plain["observed_at"] += 60
        later = facts.from_plain(plain)
        self.assertEqual(builders.realtime_host().digest(), later.digest())

    def test_a_changed_fact_does(self):
        other = builders.realtime_host(memory={"ksm_run": 1})
        self.assertNotEqual(builders.realtime_host().digest(), other.digest())


class AnonymousTest(unittest.TestCase):
    def test_two_hosts_of_one_build_become_equal(self):
        one = builders.realtime_host("a")
        other = builders.realtime_host(
            "b",
            kernel={"command_line": "root=UUID=2"},
            nics={"nics": (builders.nic(name="x", mac="y", vfs=()),)},
            irqs={
                "groups": (
                    facts.IrqGroup(frozenset({0, 1}), frozenset({0}), (31,)),
                )
            },
        )
        self.assertNotEqual(one, other)
        self.assertEqual(facts.anonymous(one), facts.anonymous(other))

    def test_another_build_stays_apart(self):
        other = builders.realtime_host(kernel={"preempt_rt": False})
        self.assertNotEqual(
            facts.anonymous(builders.realtime_host()), facts.anonymous(other)
        )
