# SPDX-License-Identifier: Apache-2.0

"""The life of a latency certificate, from its measurement to its expiry.

rt-1 measures itself with the real tools, by the command that an operator runs.
Its CPUs are emulated: the figures mean nothing, and the certificate says so.
Two things stand in for others. A boot with other ``isolcpus=`` would take the
machine minutes with all that runs in it, so that other files are mounted over
those of the kernel that say what is isolated. And the bound is lowered to 1 µs
for the probe to find a sample above it.
"""

import contextlib
import json
import re
import time
from collections.abc import Iterator
from typing import Any

from tests.cloud import notifications
from tests.cloud.base import RT_AGENT_LOG
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.cloud.scheduler import explain
from tests.periodic import periodic
from tests.testbed import errors
from tests.testbed import latency
from tests.testbed import packages
from tests.testbed import programs
from tests.testbed.rtvm import Result
from tests.testbed.services import RT

TRAIT = "CUSTOM_SRIOV_RT_LATENCY_CERTIFIED"

#: The greatest that a flavor can name: a CPU that is emulated may stand still
#: for a good part of a second.
BOUND_US = 1_000_000
ASKING = {"sriov_rt:max_latency_us": str(BOUND_US)}
STRICT = {"sriov_rt:max_latency_us": "1"}

#: Seconds that one command in rt-1 may take.
PATIENCE = 300.0
#: Seconds from a change of the host to Placement's knowing it.
TRAIT_SECONDS = 120.0
#: How long the last certificate counts, in seconds: time for the agent to see
#: it and to set the trait.
VALIDITY = 60

#: Seconds in which the agent has observed its host more than once.
AGENT_SECONDS = 25

_RESULTS = "/tmp/test-certificate"
_MEASURE = ("verify", "latency", "--profile", "quick", "--json")

#: What a host that booted with one isolated CPU less would have.
_OTHER_BOOT = """
set -e
mkdir -p /run/other-boot
sed 's/,2,3/,3/' /proc/cmdline > /run/other-boot/cmdline
echo 3 > /run/other-boot/isolated
mount --bind /run/other-boot/isolated /sys/devices/system/cpu/isolated
mount --bind /run/other-boot/cmdline /proc/cmdline
"""
_BOOT_AS_BEFORE = "umount /proc/cmdline /sys/devices/system/cpu/isolated"


@periodic
class TestCertificate(CloudTestCase):
    """rt-1 has none, earns one, and loses it in each of three ways."""

    def setUp(self) -> None:
        """Begin without a certificate, and listen to notifications."""
        super().setUp()
        if missing := packages.missing(latency.PACKAGES):
            raise errors.TestbedError(
                f"there is no network to install {', '.join(missing)} from "
                "in here; run `python3 -m tests.testbed.latency` outside first"
            )
        self.began = time.monotonic()
        self.life: list[str] = []
        self.addCleanup(self.write_life)
        self.addCleanup(self.forget)
        self.forget()
        self.wait_trait(there=False)
        self.host("sh", "-c", latency.MOUNT_TRACEFS)
        self.heard = notifications.listen(self)

    def test_its_life(self) -> None:
        """Each end of it: the trait goes, and so does the next boot."""
        flavor, strict = self.flavor(ASKING), self.flavor(STRICT)
        self.assert_no_host(flavor, "latency_uncertified × 2")
        self.note("no host has a certificate: no valid host")
        self.refuse_idle()
        self.earn()
        self.wait_trait(there=True)
        self.assert_no_host(
            strict, "latency_above × 1", "latency_uncertified × 1"
        )
        self.note("a flavor that asks for 1 µs: no valid host")
        server = self.boot_on(RT, flavor)
        self.note(f"a flavor that asks for {BOUND_US} µs: ACTIVE on {RT}")
        instance = server.id

        log = self.log(RT_AGENT_LOG)
        with self.other_boot():
            why = "isolated CPUs changed from '2-3' to '3'"
            self.assert_withdrawn(flavor, "latency_withdrawn", why)
            self.assertIn("kernel command line changed", self.reason(flavor))
            self.assert_named(log, instance, "latency_withdrawn", why)
        # As it was measured again; nobody has measured it since.
        time.sleep(AGENT_SECONDS)
        self.assertNotIn(TRAIT, self.cloud.traits(RT))
        self.earn()
        self.wait_trait(there=True)
        self.note("measured again: it counts again")

        log = self.log(RT_AGENT_LOG)
        self.python(latency.lowered())
        why = self.probe()
        self.assert_withdrawn(flavor, "latency_withdrawn", why)
        self.assert_named(log, instance, "latency_withdrawn", why)

        log = self.log(RT_AGENT_LOG)
        # What was measured before it was withdrawn does not count.
        self.earn(f"--validity={VALIDITY}s")
        self.wait_trait(there=True)
        self.assert_withdrawn(flavor, "latency_expired", "expired")
        self.assert_named(log, instance, "latency_expired", "expired")

        # Whoever runs stays: it is for its operator to decide.
        self.assertEqual("ACTIVE", self.cloud.servers.get(instance).status)

    def note(self, text: str) -> None:
        """Add a line to the life.

        :param text: the line.
        """
        line = f"[{time.monotonic() - self.began:6.1f} s] {text}"
        self.life.append(line)
        say(line)

    def write_life(self) -> None:
        """Write the life beside the other logs."""
        path = self.cloud.place.log / "test-certificate.log"
        path.write_text("\n".join([*self.life, ""]))
        say(f"see {path}")

    def host(self, *command: str, check: bool = True) -> Result:
        """Run a command in rt-1, the project's programs on its PATH.

        :param command: program and arguments.
        :param check: whether an exit status other than 0 is an error.
        """
        place, env = self.cloud.place, self.cloud.env
        return self.cloud.realtime.machine.run(
            command,
            timeout=PATIENCE,
            check=check,
            environment=programs.environment(place, env),
        )

    def python(self, code: str, *arguments: str, check: bool = True) -> Result:
        """Run Python with the project in rt-1.

        :param code: what it runs.
        :param arguments: its arguments.
        :param check: as with host().
        """
        program = self.cloud.env.program("python")
        return self.host(program, "-c", code, *arguments, check=check)

    def forget(self) -> None:
        """Take away the certificate and what was measured."""
        self.host("rm", "-rf", latency.CERTIFICATE, _RESULTS)

    def measure(self, *arguments: str) -> tuple[int, Any]:
        """Measure rt-1; return the exit status and the document.

        :param arguments: further ones of ``sriov-rt verify latency``.
        """
        done = self.python(
            latency.SRIOV_RT,
            *_MEASURE,
            *("--min-duration=4s", f"--output={_RESULTS}"),
            *arguments,
            check=False,
        )
        self.assertIn(done.status, (0, 1), done.complaint)
        return done.status, json.loads(done.text)

    def refuse_idle(self) -> None:
        """See that an idle host earns no certificate."""
        status, found = self.measure(
            *("--load=none", "--skip=oslat", "--duration=4s")
        )
        self.assertEqual((1, None), (status, found["certificate"]))
        self.assertRegex(found["refused"][0], "an idle host says nothing")
        there = self.host("test", "-e", latency.CERTIFICATE, check=False)
        self.assertEqual(1, there.status)
        self.note(f"measured idle: refused: {found['refused'][0]}")

    def earn(self, *arguments: str, attempts: int = latency.ATTEMPTS) -> None:
        """Measure under load until that earns a certificate.

        :param arguments: as with measure().
        :param attempts: how often it is gone on with what did not count.
        """
        for _ in range(attempts):
            status, found = self.measure("--resume", *arguments)
            if status == 0:
                break
            self.note(f"measured: refused: {'; '.join(found['refused'])}")
        issued = found["certificate"]
        self.assertIsNotNone(issued, found["refused"])
        self.assertTrue(issued["emulated"])
        worst = {each["tool"]: each["max_us"] for each in issued["tools"]}
        self.assertLessEqual(issued["max_latency_us"], BOUND_US, worst)
        self.note(
            f"measured under load '{issued['load']}': certified "
            f"{issued['max_latency_us']} µs {worst}, for "
            f"{issued['expires_at'] - issued['issued_at']:.0f} s; emulated"
        )

    def probe(self) -> str:
        """Let timerlat find a sample above the bound; return the reason."""
        for _ in range(latency.ATTEMPTS):
            done = self.host(
                *("sriov-rt", "verify", "watch", "--once", "--duration=3s"),
                check=False,
            )
            self.assertIn(done.status, (0, 1), done.complaint)
            if done.status == 1:
                break
            # An emulated CPU need not be idle.
            self.note(f"probe: {done.text.strip()}")
        found = re.match("certificate withdrawn: (.*)", done.text)
        assert found is not None, done.text
        self.assertIn("above the certified 1 µs", found[1])
        self.note(f"probe: {done.text.strip()}")
        return found[1]

    @contextlib.contextmanager
    def other_boot(self) -> Iterator[None]:
        """Have rt-1 isolate one CPU less, as after a boot."""
        self.host("sh", "-c", _OTHER_BOOT)
        try:
            yield
        finally:
            self.host("sh", "-c", _BOOT_AS_BEFORE)

    def assert_withdrawn(self, flavor: str, code: str, why: str) -> None:
        """Wait until rt-1 has lost its trait; the next boot fails, and why.

        :param flavor: the name of the flavor that asks for it.
        :param code: of the Reason.
        :param why: what its sentence says.
        """
        self.wait_trait(there=False)
        self.assert_no_host(flavor, f"{code} × 1", "latency_uncertified × 1")
        sentence = self.reason(flavor)
        self.assertIn(why, sentence)
        self.note(f"no trait, no valid host: {sentence}")

    def reason(self, flavor: str) -> str:
        """Return the sentences of ``sriov-rt explain`` on rt-1.

        :param flavor: the name of the flavor.
        """
        done = explain(self, flavor, "--json")
        self.assertEqual(1, done.returncode, done.stderr)
        (found,) = (
            each for each in json.loads(done.stdout) if each["host"] == RT
        )
        return "; ".join(each["message"] for each in found["reasons"])

    def wait_trait(self, *, there: bool) -> None:
        """Wait until Placement has the trait of rt-1, or has it no more.

        :param there: whether it shall be there.
        """
        seconds = self.wait_for(
            f"{RT} {'has' if there else 'has lost'} {TRAIT}",
            lambda: (TRAIT in self.cloud.traits(RT)) is there,
            timeout=TRAIT_SECONDS,
        )
        if self.life:
            state = "there" if there else "gone"
            self.note(f"trait {state} after {seconds:.1f} s")

    def assert_named(
        self, log: Any, instance: str, code: str, why: str
    ) -> None:
        """Check that operators are told which instance is affected.

        :param log: of the agent, from before the certificate's end.
        :param instance: the id of the server that runs.
        :param code: of the Reason.
        :param why: what its sentence says.
        """
        (line,) = log.lines(f"latency certificate withdrawn: host={RT} ")
        named = f"instances={instance}(max_latency_us={BOUND_US}) [{code}]"
        self.assertIn(named, line)
        self.assertIn(why, line)
        self.wait_for(
            "a notification is heard",
            self.heard.new,
            timeout=TRAIT_SECONDS,
        )
        (heard,) = self.heard.new()
        self.heard.skip(1)
        self.assertEqual(
            (f"sriov-rt-agent:{RT}", "sriov_rt.latency.withdrawn", RT),
            (heard["publisher"], heard["event"], heard["host"]),
        )
        self.assertEqual([code], heard["codes"])
        self.assertIn(why, heard["reason"])
        self.assertEqual(
            [
                {
                    "uuid": instance,
                    "realtime": False,
                    "max_latency_us": BOUND_US,
                }
            ],
            heard["instances"],
        )
        self.note(f"log: {line[line.index('latency certificate') :]}")
        self.note(
            f"notification {heard['event']} from {heard['publisher']} names "
            f"{instance}"
        )
