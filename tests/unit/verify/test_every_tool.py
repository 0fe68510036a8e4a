# SPDX-License-Identifier: Apache-2.0

"""Each row of the latency tools can be run as a whole."""

import inspect
import pathlib
import re

from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import latency
from sriov_rt.verify import results
from sriov_rt.verify import tools
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.latency_tool import ProgramTool
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.profiles import PROFILES
from sriov_rt.verify.profiles import Profile
from tests.unit.verify.programs import ProgramTest

RECORDED = pathlib.Path(__file__).with_name("recorded")

CPUS = Cpus(CpuSet((1,)), CpuSet((0,)))

#: Stands in for a program: it writes recorded output to the file that its
#: command line names, or prints it.
PROGRAM = """\
for each; do
    case $each in --json=*) cp {output} "${{each#*=}}"; exit;;
    esac
done
cat {output}
"""

#: Tools that are programs, and output of the real ones: any file that is
#: named after the tool and its version.
PROGRAMS = {
    name: (tool, sorted(RECORDED.glob(f"{name}-*")))
    for name, tool in tools.TOOLS.items()
    if issubclass(tool, ProgramTool)
}


class EveryToolTest(ProgramTest):
    def test_each_says_what_it_is(self):
        for name, tool in tools.TOOLS.items():
            with self.subTest(tool=name):
                self.assertFalse(inspect.isabstract(tool))
                self.assertRegex(name, r"^[a-z][a-z0-9_]*$")
                self.assertTrue(tool.measures)
                self.assertEqual(bool(tool.program), bool(tool.package))
                self.assertEqual(name in PROGRAMS, bool(tool.program))

    def test_no_tool_is_left_out(self):
        rows = {each.__module__ for each in tools.TOOLS.values()}
        package = pathlib.Path(tools.__file__).parent
        found = {
            f"{tools.__package__}.{path.stem}"
            for path in package.glob("*.py")
            if re.search(
                r"^class \w+\((LatencyTool|ProgramTool)\)",
                path.read_text(),
                re.MULTILINE,
            )
        }
        self.assertEqual(rows, found - {ProgramTool.__module__})

    def test_there_is_output_of_each_program(self):
        for name, (_, recorded) in PROGRAMS.items():
            with self.subTest(tool=name):
                self.assertTrue(recorded)

    def test_our_own_profiles_run_each(self):
        for name in ("quick", "standard"):
            steps = PROFILES[name].steps
            self.assertEqual([*tools.TOOLS], [each.tool for each in steps])

    def test_each_profile_names_known_tools(self):
        for profile in PROFILES.values():
            for step in profile.steps:
                with self.subTest(profile=profile.name):
                    self.assertIn(step.tool, tools.TOOLS)

    def test_a_step_has_the_pacing_that_its_command_line_has(self):
        for name, (tool, _) in PROGRAMS.items():
            step = tool.default_step(7)
            words = " ".join(tool(step).command(CPUS, "/x"))
            with self.subTest(tool=name):
                self.assertEqual(7, step.duration_s)
                self.assertRegex(words, r"\b7s?\b")
                self.assertRegex(words, rf"[=:]{step.priority}\b")
                if step.interval_us:
                    self.assertRegex(words, rf"={step.interval_us}\b")

    def test_each_is_run_and_read(self):
        for name, (tool, (output, *_)) in PROGRAMS.items():
            with self.subTest(tool=name):
                self.program(tool.program, PROGRAM.format(output=output))
                kept = results.Results(self.place / "results" / name)
                run = latency.LatencyRun(self.root, CPUS, LOADS["none"], kept)
                step = tool.default_step(5)
                profile = Profile("p", "", (step,))
                (found,) = run.run(profile, resume=False)
                measured = found.measurement
                self.assertEqual(name, measured.tool)
                self.assertTrue(measured.cpus)
                self.assertTrue(all(each.samples for each in measured.cpus))
                self.assertGreater(measured.max_us, 0)
                self.assertEqual(found, kept.get(step))

    def test_each_refuses_what_it_cannot_read(self):
        for name, (tool, _) in PROGRAMS.items():
            for document in (b"", b"{", b"\xff", b"x" * 10_000):
                with self.subTest(tool=name), self.assertRaises(OutputInvalid):
                    tool(tool.default_step(5)).parse(document)
