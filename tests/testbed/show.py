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

"""The part of the demonstration that happens inside the cloud."""

import dataclasses
import sys
import time

from tests.testbed import api
from tests.testbed import errors
from tests.testbed import guest_image
from tests.testbed import guest_view
from tests.testbed import seed
from tests.testbed.cloud import Cloud
from tests.testbed.progress import Progress
from tests.testbed.servers import Server
from tests.testbed.services import RT
from tests.testbed.services import STD

_ISOLATED = "/sys/devices/system/cpu/isolated"
_BEFORE = "End _get_guest_xml xml="


class Surprise(errors.TestbedError):
    """The cloud didn't do what the demonstration says that it does."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """One line of the last screen.

    :param what: what was seen.
    :param detail: how it was seen.
    """

    what: str
    detail: str


class Show:
    """Goes through the main job of sriov-rt, and checks each claim.

    :param cloud: a cloud that is up.
    :param progress: where to say what goes on.
    """

    def __init__(self, cloud: Cloud, progress: Progress) -> None:
        self._cloud = cloud
        self._progress = progress
        self._shown: list[Shown] = []

    def run(self) -> None:
        """Show everything, and leave no server behind.

        :raises errors.TestbedError: when something isn't as it should be.
        """
        self._explain()
        realtime = self._boot("demo-rt", seed.REALTIME_FLAVOR, RT)
        try:
            self._stripped(realtime)
            self._threads(realtime)
            ordinary = self._boot("demo-std", seed.ORDINARY_FLAVOR, STD)
            try:
                self._console(ordinary)
                self._console(realtime)
            finally:
                self._cloud.servers.delete(ordinary.id)
        finally:
            self._cloud.servers.delete(realtime.id)
        self._clean(realtime, ordinary)
        self._last_screen()

    def _explain(self) -> None:
        flavor = seed.REALTIME_FLAVOR
        _title(f"Which hosts may serve the flavor {flavor}, and why not?")
        _print(f"$ sriov-rt explain --flavor {flavor}")
        configuration = self._cloud.place.etc / "nova" / "nova.conf"
        text = self._cloud.run(
            "sriov-rt",
            "explain",
            "--flavor",
            flavor,
            "--config-file",
            str(configuration),
        )
        table = text[text.index("+--") :]
        _print(table)
        rows = [
            [cell.strip() for cell in line.split("|")[1:3]]
            for line in table.splitlines()
            if line.startswith("|")
        ]
        _expect([RT, "yes"] in rows, f"{RT} passes")
        _expect([STD, "no"] in rows, f"{STD} doesn't pass")
        self._note("explain", f"{RT} passes, {STD} doesn't, with reasons")

    def _boot(self, name: str, flavor: str, host: str) -> Server:
        _title(f"A server of the flavor {flavor}")
        begun = time.monotonic()
        with self._progress.step(f"{name} boots"):
            server = self._cloud.servers.boot(name, flavor)
        seconds = time.monotonic() - begun
        _print(f"{name} is {server.status} on {server.host} {server.fault}")
        _expect(server.status == "ACTIVE", f"{name} is ACTIVE")
        _expect(server.host == host, f"{name} is on {host}")
        self._note(flavor, f"ACTIVE on {server.host} after {seconds:.0f} s")
        return server

    def _stripped(self, server: Server) -> None:
        _title("Its domain: what Nova alone would start, and what runs")
        before = self._nova_alone(server)
        after = self._cloud.host(server.host).domain_xml(server.domain)
        log = self._cloud.place.log
        (log / "demo-before.xml").write_text(before)
        (log / "demo-after.xml").write_text(after)
        old, new = guest_view.devices(before), guest_view.devices(after)
        for kind in sorted(old):
            print(f"  {'kept   ' if kind in new else 'removed'}  {kind}")
        _print(
            f"  there now (most by libvirt): {', '.join(sorted(new - old))}"
        )
        _print("\n".join(f"  {x}" for x in guest_view.cpu_tuning(after)))
        noted = guest_view.our_metadata(after)
        _print(f"  in its metadata: {noted}")
        _print(f"  both in full: {log}/demo-before.xml, demo-after.xml")
        _expect(bool(noted), "the domain tells what was done to it")
        gone = sorted((old - new).keys())
        self._note("stripped", ", ".join(gone) or "Nova gave it no extras")

    def _nova_alone(self, server: Server) -> str:
        """Return the XML that Nova's driver made, out of its log."""
        text = (self._cloud.place.log / RT / "nova-compute.log").read_text()
        for part in reversed(text.split(_BEFORE)[1:]):
            xml = part[: part.index("</domain>")] + "</domain>"
            if server.id in xml:
                return xml
        raise Surprise(f"nova-compute on {RT} logged no XML of {server.name}")

    def _threads(self, server: Server) -> None:
        host = self._cloud.host(server.host)
        isolated = host.run("cat", _ISOLATED).strip()
        _title(f"Its threads, from /proc in {server.host}")
        _print(
            f"  {host.run('uname', '-rv').strip()}; isolated CPUs: {isolated}"
        )
        threads = guest_view.threads(host, server.domain)
        print("  TID    ON CPU  MAY RUN ON  POLICY  PRIORITY  NAME")
        for each in threads:
            print(
                f"  {each.tid:<6} {each.processor:<7} "
                f"{','.join(map(str, sorted(each.allowed))):<11} "
                f"{each.policy:<7} {each.priority:<9} {each.name}"
            )
        own = guest_view.cpus(isolated)
        vcpus = [each for each in threads if each.vcpu is not None]
        _expect(bool(vcpus), "there are vCPU threads")
        for each in vcpus:
            _expect(each.policy == "FIFO", f"{each.name} is SCHED_FIFO")
            _expect(
                {each.processor} | each.allowed <= own,
                f"{each.name} is on isolated CPUs only",
            )
        others = [each for each in threads if each.vcpu is None]
        for each in others:
            _expect(
                not each.allowed & own,
                f"{each.name} is kept off the isolated CPUs",
            )
        self._note(
            "vCPU threads",
            ", ".join(
                f"{each.name}: {each.policy} {each.priority} on CPU "
                f"{each.processor}"
                for each in vcpus
            ),
        )

    def _console(self, server: Server) -> None:
        with self._progress.step(f"{server.name} reaches its userspace"):
            text = self._cloud.servers.wait_console(
                server.id, guest_image.READY
            )
        (line,) = (x for x in text.splitlines() if guest_image.READY in x)
        line = line[line.index(guest_image.READY) :]
        _print(f"  console of {server.name}: {line}")
        self._note("console", f"{server.name}: {line}")

    def _clean(self, *servers: Server) -> None:
        _title("After deleting both")
        for name in sorted({server.host for server in servers}):
            left = self._cloud.host(name).leftovers()
            _print(f"  left on {name}: {', '.join(left) or 'nothing'}")
            _expect(not left, f"{name} is as before")
        self._note("deleted", "nothing is left of them on their hosts")

    def _note(self, what: str, detail: str) -> None:
        self._shown.append(Shown(what, detail))

    def _last_screen(self) -> None:
        _title("Seen")
        for each in self._shown:
            print(f"  {each.what:<14} {each.detail}")
        _print("The cloud stays up; `tools/demo down` ends it.")


def _expect(truth: bool, what: str) -> None:
    if not truth:
        raise Surprise(f"not as it should be: {what}")


def _title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def _print(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Show the demonstration in our cloud; the exit status is returned."""
    try:
        Show(Cloud(), Progress(sys.stdout)).run()
    except (errors.TestbedError, *api.ERRORS) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
