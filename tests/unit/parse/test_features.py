# SPDX-License-Identifier: Apache-2.0

import datetime

import hypothesis
from hypothesis import strategies

from sriov_rt.parse import label
from sriov_rt.parse.features import MAX_FILE
from sriov_rt.parse.features import parse_features
from sriov_rt.parse.features import parse_time
from tests.unit.parse import properties

NOW = 1_790_000_000.0
LATER = "2026-09-22T00:00:00Z"  # NOW is 2026-09-21T14:13:20Z
PREFIX = "feature.node.kubernetes.io/"


def labels(text: str) -> dict[str, str]:
    found = parse_features(text, NOW).labels
    return {key.removeprefix(PREFIX): value for key, value in found.items()}


class FeaturesTest(properties.ParserTestCase):
    def test_values(self):
        self.assertEqual(
            {"a": "b", "flag": "true", "empty": "", "example.com/x": "1"},
            labels("a=b\n flag \r\n\nempty=\n# words\nexample.com/x=1\n"),
        )

    def test_the_last_line_of_a_key_counts(self):
        self.assertEqual({"a": "2"}, labels("a=1\na=2"))

    def test_no_label_is_for_one_line(self):
        self.assertEqual({"b": "1"}, labels("# +no-label\na=1\nb=1"))
        self.assertEqual({}, labels("a=1\n# +no-label\na=1"))
        self.assertEqual({"a": "1"}, labels("# +no-feature\na=1"))

    def test_no_label_waits_out_what_has_expired(self):
        text = (
            "# +no-label\n# +expiry-time=2001-01-01T00:00:00Z\na=1\n"
            f"# +expiry-time={LATER}\nb=1\nc=1"
        )
        self.assertEqual({"c": "1"}, labels(text))

    def test_expiry(self):
        text = (
            "a=1\n# +expiry-time=2026-09-21T14:13:19Z\nb=1\n"
            f"# +expiry-time={LATER}\nc=1"
        )
        found = parse_features(text, NOW)
        self.assertEqual({"a": "1", "c": "1"}, labels(text))
        self.assertEqual(parse_time(LATER), found.expires_at)
        self.assertIsNone(parse_features("a=1", NOW).expires_at)
        at_the_limit = "# +expiry-time=2026-09-21T14:13:20Z\na=1"
        self.assertEqual({"a": "1"}, labels(at_the_limit))

    def test_a_bad_directive_changes_nothing(self):
        for directive in (
            "# +expiry-time",
            "# +expiry-time=tomorrow",
            "# +expiry-time=2026-13-01T00:00:00Z",
            "# +colour=green",
        ):
            with self.subTest(directive=directive):
                found = parse_features(f"a=1\n{directive}\nb=1", NOW)
                self.assertEqual(2, len(found.labels))
                self.assertIn("line 2: ", found.problems[0])

    def test_what_is_no_label_is_named(self):
        for line in (
            "=1",
            "a b=1",
            "a=@x.y",
            "a=" + "x" * 64,
            "kubernetes.io/a=1",
            "node.kubernetes.io/a=1",
            "a/b/c=1",
            "é=1",
            "/a=1",
        ):
            with self.subTest(line=line):
                found = parse_features(f"{line}\nb=1", NOW)
                self.assertEqual([f"{PREFIX}b"], list(found.labels))
                self.assertIn("line 1: ", found.problems[0])

    def test_prefixes_below_kubernetes_io_that_nfd_has(self):
        for prefix in (
            "feature.node.kubernetes.io",
            "vendor.feature.node.kubernetes.io",
            "profile.node.kubernetes.io",
        ):
            with self.subTest(prefix=prefix):
                found = parse_features(f"{prefix}/a=1", NOW)
                self.assertEqual({f"{prefix}/a": "1"}, found.labels)

    def test_longest_file(self):
        text = "#" * MAX_FILE
        self.assertEqual({}, parse_features(text, NOW).labels)
        self.refusal(parse_features, text + "#", now=NOW)
        self.refusal(parse_features, "é" * (MAX_FILE // 2 + 1), now=NOW)

    def test_hostile_files_are_bounded(self):
        for text in (
            "a=1\n" * (MAX_FILE // 4),
            "# +\n" * (MAX_FILE // 4),
            "# +expiry-time=" + "9" * (MAX_FILE - 20),
            "=" * MAX_FILE,
            "\n" * MAX_FILE,
            "x" * MAX_FILE,
        ):
            with self.subTest(start=text[:12]):
                self.assert_bounded(
                    parse_features, text, 32 * 1024 * 1024, now=NOW
                )

    @properties.deterministic
    @hypothesis.given(
        strategies.lists(
            strategies.sampled_from(
                (
                    "a=1",
                    "b",
                    "# +no-label",
                    f"# +expiry-time={LATER}",
                    "# +expiry-time=2001-01-01T00:00:00Z",
                    "# +expiry-time=",
                    "\r",
                )
            )
            | strategies.text(max_size=12)
        )
    )
    def test_total_and_legal(self, lines):
        found = self.outcome(parse_features, "\n".join(lines), now=NOW)
        for key, value in found.labels.items():
            self.assertIsNone(label.why_not_key(key))
            self.assertIsNone(label.why_not_value(value))


class TimeTest(properties.ParserTestCase):
    def test_offsets(self):
        for text in (
            "2026-09-21T14:13:20Z",
            "2026-09-21T14:13:20.999Z",
            "2026-09-21T16:13:20+02:00",
            "2026-09-21T09:43:20-04:30",
        ):
            with self.subTest(text=text):
                self.assertEqual(NOW, parse_time(text))

    def test_refused(self):
        for text in (
            "",
            "2026-09-21",
            "2026-09-21 14:13:20Z",
            "2026-09-21T14:13:20",
            "2026-02-30T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "２026-09-21T14:13:20Z",
            "2" * 1000,
        ):
            with self.subTest(text=text):
                self.refusal(parse_time, text)

    @properties.deterministic
    @hypothesis.given(
        strategies.datetimes(
            timezones=strategies.just(datetime.UTC),
        )
    )
    def test_round_trip(self, at):
        at = at.replace(microsecond=0)
        self.assertEqual(at.timestamp(), parse_time(at.isoformat()))
