# SPDX-License-Identifier: Apache-2.0

import ast
import dataclasses
import gc
import json
import pathlib
import tracemalloc
import typing
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt import codec
from sriov_rt import decide
from sriov_rt import facts
from sriov_rt.decide import realtime
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.scheduler import options
from tests.periodic import wanted
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

SCHEDULER_PAGE = (
    pathlib.Path(__file__).resolve().parents[3]
    / "doc/source/admin/scheduler.rst"
)

#: The decisions.
DECIDE = pathlib.Path(decide.__file__).parent

#: What a host takes in a scheduler by the documents, kB.
DOCUMENTED_KB = 11


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


class TextTest(unittest.TestCase):
    """What comes from another host forges no line of a log."""

    def test_control_characters_are_escaped(self):
        plain = builders.realtime_host().to_plain()
        plain["kernel"]["release"] = "6.1\nCRITICAL forged \x1b[2J\u202e"
        plain["memory"]["thp"] = {codec.UNKNOWN_KEY: "no\rsuch"}
        plain["labels"]["values"] = {"a\nb": "c\nd"}
        found = facts.from_json(json.dumps(plain))
        self.assertEqual(
            "6.1\\nCRITICAL forged \\x1b[2J\\u202e", found.kernel.release
        )
        self.assertEqual("no\\rsuch", found.memory.thp.reason)
        self.assertEqual({"a\\nb": "c\\nd"}, dict(found.labels.values))

    def test_other_text_is_left_as_it_is(self):
        host = builders.realtime_host(kernel={"command_line": "é=ü 'a\\n'"})
        self.assertEqual(host, facts.from_json(json.dumps(host.to_plain())))


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

    def test_cpu_lists_are_bounded_in_all(self):
        # Each of 2,500 distinct sets takes 1 kB: 782 MB as frozensets of
        # integers, out of a message of 30 kB.
        siblings = [f"0-{last}" for last in range(8191, 5691, -1)]
        text = self._changed("cpus", "siblings", to=siblings)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self._refused(text, "cpus.siblings", "in all")
        self.assertLess(tracemalloc.get_traced_memory()[1], 4_000_000)

    def test_equal_cpu_lists_are_one_set(self):
        text = self._changed("cpus", "siblings", to=["0-8191"] * 16_000)
        first, *others = facts.from_json(text).cpus.siblings
        self.assertTrue(all(each is first for each in others))

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


def _full() -> facts.HostFacts:
    """Return the facts of a host that has something in every list."""
    return builders.realtime_host(
        irqs={"groups": (facts.IrqGroup(CpuSet((2,)), CpuSet((2,)), (24,)),)},
        onload={"workloads": (facts.Workload("inst-1", "asked", "why"),)},
    )


_NOT_SHOWN = codec.Unknown("the kernel does not show it")
_FEW_CPUS = strategies.sets(strategies.integers(0, 2)).map(CpuSet)
_GROUPS = strategies.lists(
    strategies.builds(
        facts.IrqGroup,
        allowed=_FEW_CPUS,
        effective=_FEW_CPUS,
        irqs=strategies.lists(strategies.integers(0, 30), max_size=8).map(
            tuple
        ),
        managed=strategies.sampled_from(
            (True, False, NOT_REPORTED, _NOT_SHOWN)
        ),
        fired=strategies.booleans(),
    ),
    max_size=6,
)


#: What schedulers do not keep, and no decision may read.
_BULK = (
    facts.HostFacts,
    facts.IrqFacts,
    facts.KernelFacts,
    facts.LabelFacts,
    facts.Nic,
    facts.NicFacts,
    facts.OnloadFacts,
    facts.Vf,
    facts.Workload,
)


def _classes(cls: typing.Any) -> typing.Iterator[typing.Any]:
    """Yield a dataclass and those of its fields, at any depth."""
    yield cls
    for hint in typing.get_type_hints(cls).values():
        for each in _leaves(hint):
            if dataclasses.is_dataclass(each):
                yield from _classes(each)


def _leaves(hint: typing.Any) -> typing.Iterator[typing.Any]:
    if not (arguments := typing.get_args(hint)):
        yield hint
    for each in arguments:
        yield from _leaves(each)


def _values(value: typing.Any) -> typing.Iterator[typing.Any]:
    """Yield a dataclass instance and those in it, at any depth."""
    if isinstance(value, tuple):
        for each in value:
            yield from _values(each)
    elif dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from _values(getattr(value, field.name))


class DecisiveTest(unittest.TestCase):
    """What is left out is most of the bulk, and can't be read by type."""

    def test_the_bulk_is_in_no_hint(self):
        found = set(_classes(facts.DecisiveFacts))
        self.assertIn(facts.DecisiveNic, found)
        self.assertEqual(set(), found & set(_BULK))

    def test_the_bulk_is_in_no_value(self):
        # mypy lets a Nic pass for the DecisiveNic that it is a subclass of.
        found = {type(each) for each in _values(facts.decisive(_full()))}
        self.assertIn(facts.DecisiveNic, found)
        self.assertEqual(set(), found & set(_BULK))

    def test_decisions_import_no_bulk(self):
        names = {each.__name__ for each in _BULK}
        for path in sorted(DECIDE.glob("*.py")):
            imported = {
                alias.name
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            self.assertEqual(set(), imported & names, path)

    def test_sources_of_labels_are_kept_where_one_is_stale(self):
        values, sources = {"a": "1"}, {"a": "nfd"}
        for stale, kept in (((), None), (("nfd",), sources)):
            host = builders.realtime_host(
                labels={"values": values, "sources": sources, "stale": stale}
            )
            self.assertEqual(
                (values, kept, stale),
                dataclasses.astuple(facts.decisive(host).labels),
            )

    @hypothesis.settings(max_examples=500 if wanted() else 200)
    @hypothesis.example(
        # What is silent may be excused, and what fires beside it is not.
        groups=[
            facts.IrqGroup(CpuSet((2,)), CpuSet((2,)), (irq,), _NOT_SHOWN, hit)
            for irq, hit in ((1, False), (2, True))
        ],
        dedicated=CpuSet((2,)),
        flags=("domain", "managed_irq"),
    )
    @hypothesis.given(
        groups=_GROUPS,
        dedicated=strategies.none() | _FEW_CPUS,
        flags=strategies.sampled_from(
            (("domain", "managed_irq"), ("domain",))
        ),
    )
    def test_interrupts_are_judged_the_same(self, groups, dedicated, flags):
        host = builders.realtime_host(
            cpus={
                "online": parse_cpu_list("0-2"),
                "isolated": parse_cpu_list("1-2"),
                "isolcpus_flags": flags,
            },
            compute={"dedicated": dedicated},
            irqs={"groups": tuple(groups)},
        )
        judged = facts.decisive(host)
        every = dataclasses.replace(
            judged,
            irqs=dataclasses.replace(judged.irqs, for_guests=tuple(groups)),
        )
        for placed_by_nova in (True, False):
            full, lean = (
                [
                    each.message
                    for each in realtime.reasons(
                        found, placed_by_nova=placed_by_nova
                    )
                ]
                for found in (every, judged)
            )
            self.assertEqual(full, lean)

    def size(self, host):
        """Return the bytes that one more host like it takes."""
        document = json.dumps(host.to_plain())
        kept = [facts.decisive(facts.from_json(document))]
        # It empties the interpreter's free lists: what is taken from them, as
        # other tests have left them, is not counted.
        gc.collect()
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        before = tracemalloc.get_traced_memory()[0]
        kept += [facts.decisive(facts.from_json(document)) for _ in range(20)]
        return (tracemalloc.get_traced_memory()[0] - before) / 20

    def test_a_host_takes_what_the_documents_say_in_a_scheduler(self):
        # 64 CPUs, 256 VFs and 80 labels.
        vfs = tuple(
            facts.Vf(
                n, f"0000:01:{n // 8:02x}.{n % 8}", "iavf", f"v{n}", n, None
            )
            for n in range(64)
        )
        labels = {f"example.org/feature-{n}": "true" for n in range(80)}
        host = builders.realtime_host(
            cpus={
                "siblings": tuple(
                    parse_cpu_list(f"{n},{n + 32}") for n in range(32)
                )
            },
            nics={"nics": tuple(builders.nic(vfs=vfs) for _ in range(4))},
            labels={"values": labels, "sources": dict.fromkeys(labels, "nfd")},
        )
        size = self.size(host)
        self.assertAlmostEqual(DOCUMENTED_KB, size / 1000, delta=1.0)
        self.assertLess(size, codec.size(facts.decisive(host)))
        (option,) = (
            each
            for each in options.SCHEDULER_OPTS
            if each.name == "facts_max_hosts"
        )
        for text in (option.help, SCHEDULER_PAGE.read_text()):
            self.assertIn(
                "of a host with 64 CPUs, 256 VFs and 80 labels take about "
                f"{DOCUMENTED_KB} kB",
                " ".join(text.split()),
            )

    def test_of_many_cpus_it_takes_less_than_20_kb(self):
        # Two threads a core, and an interrupt for each CPU of two NVMe disks.
        queues = tuple(
            facts.IrqGroup(
                CpuSet((cpu,)), CpuSet((cpu,)), (300 + cpu, 900 + cpu), True
            )
            for cpu in range(256)
        )
        host = builders.realtime_host(
            cpus={
                "online": parse_cpu_list("0-255"),
                "isolated": parse_cpu_list("8-127,136-255"),
                "siblings": tuple(
                    parse_cpu_list(f"{n},{n + 128}") for n in range(128)
                ),
            },
            compute={"dedicated": parse_cpu_list("8-127,136-255")},
            irqs={"groups": queues},
        )
        self.assertLess(self.size(host), 20_000)
