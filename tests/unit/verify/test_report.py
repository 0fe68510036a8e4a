# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import io
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.facts.culprit import Culprit
from sriov_rt.verify import breach
from sriov_rt.verify import collection
from sriov_rt.verify import compare
from sriov_rt.verify import disk
from sriov_rt.verify import errors
from sriov_rt.verify import fio
from sriov_rt.verify import network
from sriov_rt.verify import pictures
from sriov_rt.verify import report
from sriov_rt.verify import results
from sriov_rt.verify import summary
from sriov_rt.verify.machine import Machine
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Step
from tests.periodic import periodic
from tests.periodic import slow

try:
    import matplotlib
    from matplotlib import figure as figure_module
    from matplotlib.backends import backend_agg
except ImportError:
    matplotlib = None


MAXIMA = [("0-cyclictest-maxima", "1-cyclictest-maxima")]


def cpu(number, scale, seed=0, seconds=120, buckets=400):
    """Return believable latencies of a CPU."""
    chance = random.Random(seed + number)
    samples = [
        [2 + round(chance.gammavariate(3, scale / 3)) for _ in range(100)]
        for _ in range(seconds)
    ]
    every = [each for second in samples for each in second]
    counts = Counter(each for each in every if each < buckets)
    return CpuLatency(
        number,
        len(every),
        max(every),
        tuple(sorted(counts.items())),
        tuple(map(max, samples)),
    )


def latency(
    directory, scale, tool="cyclictest", problems=(), seed=0, cpus=None
):
    """Write a result of a latency measurement."""
    cpus = cpus or tuple(cpu(number, scale, seed) for number in (2, 3))
    measured = Measurement(
        tool, "2.40", "cyclictest", 1.79e9, 900.0, cpus, problems
    )
    result = results.Result(
        Step(tool, 900, interval_us=200),
        "compute",
        {"kernel release": "6.1 <rt> & $x$", "SMT": "0"},
        measured,
        emulated=True,
    )
    return results.Results(directory).put(result)


def traffic(directory, figure, error=0.0, name="vf", **cell):
    """Write a result of a network measurement."""
    cell = {"test": network.SEND, "streams": 1, "duration_s": 20} | cell
    network.Results(directory).put(
        network.Measured(
            network.Cell(name, **cell),
            "two hosts",
            "6.1",
            "iperf 3.12",
            "iperf3",
            1.79e9,
            True,
            figure,
            error=error,
        )
    )


def storage(directory, place, pattern, clients, bandwidth):
    """Write a result of a disk measurement."""
    job = fio.Job(pattern, 65536, 8, 4 * clients, 1024, False, 30)
    directory.mkdir(exist_ok=True)
    disk.Target(directory).put(
        disk.Measured(
            disk.Cell(disk.MATRIX, place, clients, job),
            "ext4",
            "6.1",
            "fio-3.33",
            "fio",
            1.79e9,
            True,
            fio.Figures(bandwidth, bandwidth / 65536, 900.0, 2000.0, 5000.0),
        )
    )


class ReportTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.before = self.place / "before"
        self.after = self.place / "after"

    def run_it(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main.main(["verify", *map(str, arguments)])
        return code, out.getvalue(), err.getvalue()

    def whole(self):
        latency(self.before, 20, problems=("the clock was set by +1.0 s",))
        latency(self.after, 8)
        traffic(self.before, 9.4e9, 1e7)
        traffic(self.before, 1e4, test=network.REQUESTS, streams=36)
        traffic(
            self.before, 1.4e5, test=network.REQUESTS, streams=36, onload=True
        )
        traffic(self.before, 1.1e6, test=network.PACKETS)
        for number, place in enumerate(("bare", "container", "9p"), 1):
            for pattern in fio.PATTERNS:
                for clients in disk.CLIENTS:
                    storage(self.before, place, pattern, clients, 9e8 / number)


class TextTest(ReportTest):
    def test_a_failed_run_is_shown_as_failed(self):
        self.whole()
        (first, *_) = disk.Target(self.before).all()
        wire = next(
            each
            for each in network.Results(self.before).all()
            if each.cell.test == network.SEND
        )
        disk.Target(self.before).put(
            dataclasses.replace(first, figures=None, problem="no libaio")
        )
        network.Results(self.before).put(
            dataclasses.replace(wire, figure=None, problem="no route")
        )
        _, out, err = self.run_it("report", self.before, "--json")
        self.assertEqual("", err)
        shown = {each["what"]: each["figure"] for each in json.loads(out)}
        for found, why in ((first, "no libaio"), (wire, "no route")):
            name = found.cell.file.removesuffix(".json")
            self.assertEqual(f"failed: {why}", shown[name])
        code, out, _ = self.run_it("report", self.before)
        self.assertEqual(0, code)
        self.assertIn(f"{first.cell.file}: no libaio", out)

    def test_histogram(self):
        self.whole()
        with mock.patch.object(
            pictures, "_library", side_effect=errors.PicturesUnavailable
        ):
            code, out, _ = self.run_it("report", self.before)
        self.assertEqual(0, code)
        self.assertRegex(out, r"cyclictest, CPU 2: maximum \d+ µs")
        self.assertRegex(out, r"\d+-\d+ µs +[\d,]+ #+\n")
        self.assertIn("does not count: the clock was set", out)
        self.assertIn("14.00 ×", out)
        self.assertIn("these figures say nothing of any hardware", out)

    def test_published_figures_only_on_request(self):
        self.whole()
        _, out, _ = self.run_it("report", self.before)
        self.assertNotIn("Published", out)
        self.assertNotIn("9.41", out)
        _, out, _ = self.run_it("report", self.before, "--published")
        self.assertIn("9.41", out)
        self.assertIn("CERN openlab and Intel 2016: ", out)
        self.assertIn("measured otherwise: sockperf for netperf", out)

    def test_when_and_on_what(self):
        latency(self.before, 20)
        traffic(self.before, 9.4e9)
        _, out, _ = self.run_it("report", self.before)
        self.assertIn("Measured:        2026-09-21 14:13 UTC\n", out)
        self.assertIn("Tools:           cyclictest 2.40; iperf 3.12\n", out)

    def test_a_baseline_comes_first(self):
        for name in ("container", "host", "vf"):
            traffic(self.before, 9.4e9, name=name)
        (found,) = collection.read([self.before])
        names = [row[0] for row in network.TABLE.rows(found.network)]
        self.assertEqual(["host", "container", "vf"], names)

    def test_results_of_an_earlier_version_load(self):
        path = latency(self.before, 20)
        document = json.loads(path.read_text())
        del document["machine"]
        path.write_text(json.dumps(document))
        (found,) = collection.read([self.before])
        self.assertNotIn("Host", dict(report.facts(found)))

    def test_overflows_are_shown(self):
        found = CpuLatency(2, 120, 900, ((3, 100), (4, 10)))
        *_, last = collection.histogram(found)
        self.assertIn(">4 µs             10 #", last)
        self.assertEqual([], list(collection.histogram(CpuLatency(2, 9, 9))))

    def test_without_matplotlib_nothing_is_written(self):
        latency(self.before, 20)
        with mock.patch.dict(
            "sys.modules", {"matplotlib": None, "matplotlib.figure": None}
        ):
            code, _, err = self.run_it(
                "report", self.before, "-o", self.place / "x.html"
            )
        self.assertEqual(2, code)
        self.assertIn("install sriov-rt[report]", err)
        self.assertFalse((self.place / "x.html").exists())

    def test_nothing_measured(self):
        self.before.mkdir()
        for path in (self.before, self.place / "missing"):
            code, _, err = self.run_it("report", path)
            self.assertEqual(2, code)
            self.assertIn("no results in it", err)

    def test_foreign_files_are_passed_over(self):
        path = latency(self.before, 20)
        text = path.read_bytes()
        for bad in (b"", b"{", b"[" * 10**5, text[:999], b"\xff" * 999):
            (self.before / "oslat.json").write_bytes(bad)
            (self.before / "disk-x.json").write_bytes(bad)
            (self.before / "network-x.json").write_bytes(bad)
            (found,) = collection.read([self.before])
            self.assertEqual(["cyclictest"], list(found.latency))
        # Nor is one with figures that nothing can have measured.
        good = CpuLatency(2, 10, 5, ((1, 3), (9, 7)), (5,))
        for name, values in {
            "cpu": (-1, 8192, 10**30),
            "samples": (-10, 10**400),
            "max_us": (-5, 10**400),
            "histogram": (
                *(((-5, 3),), ((9, 3), (1, 7)), ((1, -3),)),
                *(((1, 10**400),), ((10**400, 1),)),
            ),
            "maxima_us": ((-5,), (10**400,)),
        }.items():
            for value in values:
                with self.subTest(name, value=str(value)[:20]):
                    bad = dataclasses.replace(good, **{name: value})
                    latency(self.before, 20, "oslat", cpus=(good, bad))
                    (found,) = collection.read([self.before])
                    self.assertEqual(["cyclictest"], list(found.latency))
        latency(self.before, 20, "oslat", cpus=(good,))
        (found,) = collection.read([self.before])
        self.assertEqual(["cyclictest", "oslat"], sorted(found.latency))
        # Another tool's result under a wrong name is none.
        (self.before / "oslat.json").write_bytes(text)
        (found,) = collection.read([self.before])
        self.assertEqual(["cyclictest"], list(found.latency))


@slow
@unittest.skipUnless(matplotlib, "needs the extra 'report'")
class PageTest(ReportTest):
    def test_what_another_version_or_anybody_wrote_is_drawn(self):
        # A name of a directory may be no text, and no label of a picture.
        place = self.place / os.fsdecode(b"a\xff\n\x1b[31m<b>$x^$")
        latency(place, 8, cpus=(CpuLatency(2, 0, 0),))
        storage(place, "bare", "a pattern to come", 1, -9e8)
        for test in (network.SEND, network.REQUESTS, network.PACKETS):
            traffic(place, -1e308, error=-1.0, test=test, streams=10**9)
        page = self.place / "page.html"
        code, _, err = self.run_it("report", place, "--output", page)
        self.assertEqual(0, code, err)
        text = page.read_text()
        self.assertIn(r"a\xdcff\x0a\x1b[31m&lt;b&gt;$x^$", text)
        self.assertNotIn("<b>$x", text)

    def test_nothing_is_cut_and_bars_begin_at_zero(self):
        long = "a place with a name of more than forty characters, say 17"
        for number, counts in enumerate(((1,), range(1, 13))):
            directory = self.place / f"a run with a long name {number}" / "x"
            directory.mkdir(parents=True)
            latency(directory, 20, problems=("it was disturbed",))
            for clients, place in itertools.product(counts, ("bare", long)):
                storage(directory, place, "read", clients, 9e8 / clients)
                storage(directory, place, "write", clients, 4e8)
                for figure in ("send", "requests"):
                    name = f"{place} {clients}"
                    traffic(directory, 9e9 / clients, name=name, test=figure)
            (found,) = collection.read([directory])
            for name, figure in self.drawn([found]):
                with self.subTest(name, clients=len(counts)):
                    self.assert_whole(figure)
                    self.assert_from_zero(figure)

    def drawn(self, found):
        """Return each picture's name with its figure."""
        real, made = figure_module.Figure, []

        def figure(**options):
            made.append(real(**options))
            return made[-1]

        with mock.patch.object(figure_module, "Figure", figure):
            names = [each.name for each in pictures.draw(found)]
        return list(zip(names, made, strict=True))

    def assert_whole(self, figure):
        """All of it is within the margins, the watermark too."""
        canvas = backend_agg.FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        width, height = figure.bbox.width, figure.bbox.height
        texts = [each.get_text() for each in figure.texts]
        self.assertIn(pictures.EMULATED, texts)
        # The title is a text of the figure as well.
        for each in (*figure.texts, *figure.axes, *figure.legends):
            box = each.get_tightbbox(renderer)
            self.assertGreaterEqual(min(box.x0, box.y0), -1, each)
            self.assertLessEqual(box.x1, width + 1, each)
            self.assertLessEqual(box.y1, height + 1, each)

    def assert_from_zero(self, figure):
        for axes in figure.axes:
            for container in axes.containers:
                for bar in getattr(container, "patches", ()):
                    level = bar.get_height() < 1 and bar.get_x() == 0
                    low, high = axes.get_xlim() if level else axes.get_ylim()
                    long = bar.get_width() if level else bar.get_height()
                    self.assertEqual((0, "linear"), (low, axes.get_yscale()))
                    self.assertLessEqual(long, high)

    def test_what_names_a_machine_is_not_in_the_page(self):
        self.before.mkdir()
        path = latency(self.before, 20)
        document = json.loads(path.read_text())
        secret = "0123456789abcdef0123456789abcdef"
        document["conditions"] |= {
            "machine": secret,
            "kernel version": "#1 SMP PREEMPT_RT <b>",
            "isolated CPUs": "2-3",
            "kernel command line": "root=UUID=7 rd.luks.key=/k isolcpus=2-3",
        }
        path.write_text(json.dumps(document))
        (found,) = collection.read([self.before])
        page = report.page([found], [], "<script>")
        for each in (secret, "rd.luks", "UUID", "<b>", "<script>"):
            self.assertNotIn(each, page)
        for each in ("isolcpus=2-3", "machine, digest", "&lt;script&gt;"):
            self.assertIn(each, page)
        shown = dict(report.facts(found))
        self.assertEqual("yes", shown["PREEMPT_RT"])
        self.assertEqual("2-3", shown["Isolated CPUs"])

    def test_the_verdict_is_on_top(self):
        conditions = {"isolated CPUs": "2-3", "machine": "ab" * 16}
        for tool in ("cyclictest", "oslat"):
            path = latency(self.before, 20, tool)
            document = json.loads(path.read_text())
            document["conditions"] = conditions
            path.write_text(json.dumps(document))
        (found,) = collection.read([self.before])
        worst = found.latency["oslat"].measurement.max_us
        verdict = summary.of(found)
        self.assertTrue(verdict.is_certified, verdict.reasons)
        self.assertRegex(
            verdict.sentence,
            f"^Certified: at most {worst} µs on CPUs 2-3 under the load "
            "'compute'; a worse latency comes less than once in ",
        )
        page = report.page([found], [], "")
        self.assertLess(page.index("Certified: at"), page.index("<table"))
        (self.before / "oslat.json").unlink()
        (found,) = collection.read([self.before])
        self.assertIn("oslat was not run", report.page([found], [], ""))
        self.assertFalse(summary.of(found).is_certified)
        traffic(self.after, 9e9)
        (found,) = collection.read([self.after])
        self.assertIsNone(summary.of(found))
        self.assertNotIn("ertified", report.page([found], [], ""))
        code, text, _ = self.run_it("report", self.before, self.after)
        self.assertEqual(0, code)
        before, _, after = text.partition("== after")
        self.assertTrue(
            before.startswith("== before\nNot certified. Measured: at most ")
        )
        self.assertIn("\n  oslat was not run\n", before)
        self.assertNotIn("ertified", after)

    @periodic
    def test_page_and_pictures(self):
        self.whole()
        page, place = self.place / "report.html", self.place / "pictures"
        code, _, err = self.run_it(
            *("report", self.before, self.after),
            *("-o", page, "--pictures", place),
        )
        self.assertEqual((0, ""), (code, err))
        text = page.read_text()
        self.assert_needs_nothing_else(text)
        self.assert_pictures(place)
        self.assert_before_and_after_are_neighbours(text)
        self.assert_a_narrow_page_names_the_column_of_each_value(text)

    def test_a_user_without_a_home_reads_nothing_of_matplotlib(self):
        done = subprocess.run(
            (
                *(sys.executable, "-c"),
                "from sriov_rt.verify import pictures; pictures._library()",
            ),
            capture_output=True,
            check=False,
            env={**os.environ, "HOME": "/proc/none", "MPLCONFIGDIR": ""},
        )
        self.assertEqual((0, b""), (done.returncode, done.stderr))

    def assert_before_and_after_are_neighbours(self, page):
        kinds = re.findall(r'<figure id="([^"]+)"(?: class="(\w+)")?', page)
        paired = [name for name, kind in kinds if not kind]
        # Two columns, and what is not a pair has a row to itself.
        self.assertEqual(
            [("0-cyclictest", "1-cyclictest"), *MAXIMA],
            list(zip(paired[::2], paired[1::2], strict=False))[:2],
        )
        self.assertEqual({"alone", "wide", ""}, {kind for _, kind in kinds})

    def assert_a_narrow_page_names_the_column_of_each_value(self, page):
        tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
        self.assertTrue(tables)
        for table in tables:
            columns = re.findall("<th>(.*?)</th>", table)
            names = re.findall('data-name="(.*?)"', table)
            self.assertEqual(columns, names[: len(columns)])
            self.assertEqual(len(columns) > 3, 'class="records"' in table)

    def assert_needs_nothing_else(self, page):
        sources = re.findall(r'(?:src|href)="([^"]{0,20})', page)
        self.assertTrue(sources)
        self.assertEqual(
            {"data:image/svg+xml;b", "data:image/png;base6"}, set(sources)
        )
        self.assertNotIn("<script", page)
        self.assertIn("these figures mean nothing", page)
        self.assertIn("6.1 &lt;rt&gt; &amp; $x$", page)
        self.assertEqual(page.count("<figure"), page.count("</figure>"))

    def assert_pictures(self, place):
        names = {each.stem for each in place.iterdir()}
        self.assertEqual(
            {
                "0-cyclictest",
                "0-cyclictest-maxima",
                "1-cyclictest",
                "1-cyclictest-maxima",
                "overlay-cyclictest",
                "throughput",
                "requests",
                "onload",
                "packets",
                "disk-bandwidth",
                "disk-mean_us",
            },
            names,
        )
        for name in names:
            png = (place / f"{name}.png").read_bytes()
            self.assertTrue(png.startswith(b"\x89PNG"))
            svg = (place / f"{name}.svg").read_text()
            self.assertIn("</svg>", svg)

    def test_bars_of_several_streams_say_how_many(self):
        for streams in (1, 12):
            traffic(self.before, streams * 1e9, streams=streams)
        traffic(self.after, 9e9)
        drawn = {}
        for place in (self.before, self.after):
            (found,) = collection.read([place])
            (bars,) = pictures.draw([found])
            # matplotlib has each text as a comment above its glyphs.
            drawn[place] = bars.images["svg"].decode()
        for name in ("vf, send, 1 stream", "vf, send, 12 streams"):
            self.assertIn(f"<!-- {name} -->", drawn[self.before])
        self.assertIn("<!-- vf, send -->", drawn[self.after])

    def test_titles_have_the_maximum(self):
        latency(self.before, 20)
        (found,) = collection.read([self.before])
        drawn = list(pictures.draw([found]))
        worst = found.latency["cyclictest"].measurement.max_us
        self.assertEqual(
            f"before: cyclictest, maximum {worst} µs", drawn[0].title
        )
        self.assertIn(f"maximum {worst} µs", report.page([found], drawn, ""))

    def test_a_bucket_of_an_hour_draws_no_hour(self):
        run = Measurement(
            "oslat",
            "",
            "$\\frac{",
            -1.0,
            1.0,
            (CpuLatency(2, 2, 3_600_000_000, ((3_600_000_000, 2),)),),
        )
        result = results.Result(
            Step("oslat", 1), "none", {"$\\frac{": "$x"}, run
        )
        found = collection.Collection("$\\frac{", {"oslat": result}, (), ())
        drawn = list(pictures.draw([found]))
        self.assertIn("</html>", report.page([found], drawn, ""))


class BreachTest(ReportTest):
    """A ticket alone, and beside measurements."""

    def setUp(self):
        super().setUp()
        self.ticket = breach.Breach(
            at=1.7959e9,
            cpu=2,
            bound_us=18,
            sample_us=433,
            culprit=Culprit(
                "thread", "<b>:9", 2, 433, 420, "timerlat", ("f1", "f2")
            ),
            issued_at=1.79e9,
            changed=("package seabios changed from '1' to '2'",),
            compared=40,
            on_cpu=("ovs-vswitchd/pmd-c02:77 90 %",),
            machine=Machine("rt-1"),
            emulated=True,
        )

    def test_as_text(self):
        breach.keep(self.before, self.ticket)
        code, out, err = self.run_it("report", self.before)
        self.assertEqual(0, code, err)
        for line in (
            "Bound:           18 µs, certified 2026-09-21 14:13:20 UTC",
            "Sample:          433 µs on CPU 2",
            "Culprit:         thread <b>:9 had the CPU for 420 µs (timerlat)",
            "Stack:           f2",
            "Changed:         package seabios changed from '1' to '2'",
            "On the CPU:      ovs-vswitchd/pmd-c02:77 90 %",
        ):
            self.assertIn(line, out)

    def test_as_a_page_and_as_a_document(self):
        latency(self.before, 20)
        breach.keep(self.before, self.ticket)
        (found,) = collection.read([self.before])
        page = report.page([found], (), "made")
        self.assertIn("Latency above the bound", page)
        self.assertIn("&lt;b&gt;:9 had the CPU", page)
        self.assertNotIn("<b>:9", page)
        code, out, err = self.run_it("report", "--json", self.before)
        self.assertEqual(0, code, err)
        whats = [each["what"] for each in json.loads(out)]
        self.assertIn("breach 1, Culprit", whats)

    def test_culprits_of_a_measurement(self):
        cpus = (cpu(2, 20),)
        named = Culprit("irq", "eth0:54", 2, 90, 80, "cyclictest")
        run = Measurement(
            "cyclictest", "2.40", "x", 1.79e9, 900.0, cpus, (), (named,)
        )
        step = Step("cyclictest", 900)
        results.Results(self.before).put(
            results.Result(step, "compute", {"SMT": "0"}, run)
        )
        code, out, err = self.run_it("report", self.before)
        self.assertEqual(0, code, err)
        self.assertIn("CPU 2, 90 µs: interrupt eth0:54 had the CPU", out)
        page = report.page(collection.read([self.before]), (), "made")
        self.assertIn("interrupt eth0:54 had the CPU for 80", page)

    def test_the_oldest_are_removed(self):
        for number in range(breach.MOST + 3):
            breach.keep(
                self.before,
                dataclasses.replace(self.ticket, at=1.7959e9 + number),
            )
        found = breach.every(self.before)
        self.assertEqual(breach.MOST, len(found))
        self.assertEqual(1.7959e9 + 3, found[0].at)


class CompareTest(ReportTest):
    def test_the_same_twice(self):
        latency(self.before, 20)
        latency(self.after, 20, seed=7)
        traffic(self.before, 9.40e9)
        traffic(self.after, 9.38e9)
        code, out, _ = self.run_it("compare", self.before, self.after)
        self.assertEqual(0, code, out)
        self.assertNotIn("worse", out)
        self.assertIn("±", out)

    def test_a_latency_that_grew(self):
        latency(self.before, 8)
        latency(self.after, 20)
        code, out, _ = self.run_it("compare", self.before, self.after)
        self.assertEqual(1, code)
        _, plain, _ = self.run_it("compare", self.before, self.after, "--json")
        self.assertIn("samples exceed the other's", plain)
        rows = json.loads(plain)
        self.assertEqual({True}, {each["emulated"] for each in rows})
        self.assertIn("worse", out)
        code, out, _ = self.run_it("compare", self.after, self.before)
        self.assertEqual(0, code)
        self.assertIn("better", out)

    def test_nothing_in_common_is_not_no_worse(self):
        latency(self.before, 8)
        traffic(self.after, 9.4e9)
        code, out, err = self.run_it("compare", self.before, self.after)
        self.assertEqual((2, ""), (code, out))
        self.assertIn("before and after have no figure in common", err)

    def test_a_throughput_of_nothing_is_worse(self):
        traffic(self.before, 9.4e9)
        traffic(self.after, 0.0)
        code, out, _ = self.run_it("compare", self.before, self.after)
        self.assertEqual(1, code, out)

    def test_what_is_lost_or_does_not_count_is_named(self):
        latency(self.before, 8)
        latency(self.before, 8, "oslat")
        latency(self.after, 8, problems=("the clock was set \x1b",))
        traffic(self.before, 9.4e9)
        traffic(self.after, None)
        # Measured for another time, it is another figure.
        traffic(self.before, 9.4e9, name="host")
        traffic(self.after, 9.4e9, name="host", duration_s=60)
        code, out, _ = self.run_it("compare", self.before, self.after)
        self.assertEqual(0, code)
        for line in (
            "not compared: oslat, CPU 2-3",
            "not compared: network-vf-send-1",
            "not compared: network-host-send-1",
            "after: cyclictest does not count: the clock was set \\x1b",
        ):
            self.assertIn(f"note: {line}\n", out)

    def test_one_outlier_is_no_regression(self):
        first = CpuLatency(2, 10**6, 20, ((5, 10**6 - 1), (20, 1)))
        second = CpuLatency(2, 10**6, 30, ((5, 10**6 - 1), (30, 1)))
        found = list(compare.latency("x", first, second))
        self.assertEqual([False, False], [each.worse for each in found])
        # Ten of them are no chance.
        third = CpuLatency(2, 10**6, 30, ((5, 10**6 - 10), (30, 10)))
        self.assertTrue(next(compare.latency("x", first, third)).worse)

    def test_figures_that_fell(self):
        traffic(self.before, 9.4e9)
        traffic(self.after, 4.4e9)
        storage(self.before, "bare", "read", 1, 9e8)
        storage(self.after, "bare", "read", 1, 9e8)
        code, out, _ = self.run_it("compare", self.before, self.after)
        self.assertEqual(1, code)
        self.assertRegex(out, r"network-vf-send-1 .*-5 Gb/s .*worse")
        self.assertRegex(out, r"disk-matrix-bare-read.*same")
        # Where the error is as large, it is none.
        traffic(self.after, 4.4e9, error=3e9)
        code, out, _ = self.run_it("compare", self.before, self.after)
        self.assertEqual(0, code, out)
