# SPDX-License-Identifier: Apache-2.0

"""The part of the demonstration that happens inside the cloud."""

import contextlib
import dataclasses
import json
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from collections.abc import Sequence

from tests.testbed import api
from tests.testbed import errors
from tests.testbed import guest_image
from tests.testbed import guest_view
from tests.testbed import seed
from tests.testbed.cloud import Cloud
from tests.testbed.demo import RESULT
from tests.testbed.realtime_host import POOL_NETWORK
from tests.testbed.realtime_host import SRIOV_AGENT
from tests.testbed.servers import Server
from tests.testbed.services import RT
from tests.testbed.services import STD
from tests.testbed.steps import Step

_ISOLATED = "/sys/devices/system/cpu/isolated"
_BEFORE = "End _get_guest_xml xml="
#: The servers by their names, the realtime one first.
_FLAVORS = {
    "demo-rt": seed.REALTIME_FLAVOR,
    "demo-std": seed.ORDINARY_FLAVOR,
}
_PORT = "demo-fast"
#: Fields of a port that are shown, to fit a terminal.
_FIELDS = (
    *("name", "status", "mac_address", "binding_host_id"),
    *("binding_vnic_type", "binding_vif_type"),
)
#: The longest time of our commands on rt-1, whose CPUs are emulated.
_COMMAND_SECONDS = 300


class Surprise(errors.TestbedError):
    """The cloud didn't do what the demonstration claims."""


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
    """

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._text: list[str] = []
        self._shown: list[Shown] = []

    def run(self) -> str:
        """Go through everything, and leave no server behind.

        :returns: what was seen.
        :raises errors.TestbedError: when a claim does not hold.
        """
        Step.EXPLAIN.begin()
        self._explain()
        servers = self._cloud.servers
        try:
            Step.BOOT.begin()
            port = self._cloud.create_port(
                POOL_NETWORK, binding_vnic_type="normal", name=_PORT
            )
            ports = {seed.REALTIME_FLAVOR: [port]}
            made = [
                servers.create(name, flavor, ports=ports.get(flavor, ()))
                for name, flavor in _FLAVORS.items()
            ]
            realtime = self._booted(made[0], RT)
            self._stripped(realtime)
            self._threads(realtime)
            self._fast_port(port)
            Step.CONSOLE.begin()
            ordinary = self._booted(made[1], STD)
            for each in (realtime, ordinary):
                self._console(each)
        except BaseException:
            # Nova deletes them in the background. They are found by name,
            # since Ctrl-C may come before an answer with an id.
            compute = self._cloud.api.compute
            for each in list(compute.servers()):
                if each.name in _FLAVORS:
                    compute.delete_server(each.id)
            network = self._cloud.api.network
            for left in list(network.ports(name=_PORT)):
                network.delete_port(left.id)
            raise
        Step.DELETE.begin()
        for server in reversed(made):
            servers.delete(server)
        self._cloud.api.network.delete_port(port)
        self._clean(realtime, ordinary)
        # It is not needed before, and takes long to start.
        self._cloud.realtime.start(SRIOV_AGENT)
        self._summary()
        return "\n".join(self._text) + "\n"

    def _explain(self) -> None:
        flavor = seed.REALTIME_FLAVOR
        self._title(f"Which hosts may serve the flavor {flavor}, and why not?")
        configuration = self._cloud.place.etc / "nova" / "nova.conf"
        table = self._cloud.run(
            *("sriov-rt", "explain", "--flavor", flavor),
            *("--config-file", str(configuration)),
        )
        self._say(f"$ sriov-rt explain --flavor {flavor}", table.rstrip())
        rows = [
            [cell.strip() for cell in line.split("|")[1:3]]
            for line in table.splitlines()
            if line.startswith("|")
        ]
        _expect([RT, "yes"] in rows, f"{RT} passes")
        _expect([STD, "no"] in rows, f"{STD} doesn't pass")
        self._note("explain", f"{RT} passes, {STD} doesn't, with reasons")

    def _booted(self, server: str, host: str) -> Server:
        begun = time.monotonic()
        found = self._cloud.servers.wait(server)
        _expect(
            found.status == "ACTIVE",
            f"{found.name} is ACTIVE: {found.status} {found.fault}",
        )
        _expect(found.host == host, f"{found.name} is on {host}")
        print(
            f"{found.name}: {time.monotonic() - begun:.0f} s until ACTIVE",
            file=sys.stderr,
        )
        self._note(_FLAVORS[found.name], f"ACTIVE on {found.host}")
        return found

    def _stripped(self, server: Server) -> None:
        self._title("Its domain: what Nova alone would start, and what runs")
        before = self._nova_alone(server)
        after = self._cloud.host(server.host).domain_xml(server.domain)
        log = self._cloud.place.log
        (log / "demo-before.xml").write_text(before)
        (log / "demo-after.xml").write_text(after)
        old, new = guest_view.devices(before), guest_view.devices(after)
        gone = sorted(old.keys() - new.keys())
        for what, kinds in (
            ("removed", gone),
            ("kept", sorted(old.keys() & new.keys())),
            ("there now", sorted((new - old).keys())),
        ):
            self._say(_wrapped(what, kinds))
        self._say(_wrapped("pinned", guest_view.cpu_tuning(after)))
        noted = guest_view.our_metadata(after)
        self._say(
            _wrapped("metadata", [noted]),
            f"  Both in full: {log}/demo-before.xml, demo-after.xml",
        )
        _expect(bool(noted), "the domain tells what was done to it")
        self._note("stripped", f"{len(gone)} devices that Nova gave it")

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
        self._title(f"Its threads, from /proc in {server.host}")
        self._say(
            f"  {host.run('uname', '-r').strip()}; isolated CPUs: {isolated}"
        )
        threads = guest_view.threads(host, server.domain)
        self._say("  TID    ON CPU  MAY RUN ON  POLICY  PRIORITY  NAME")
        for each in threads:
            self._say(
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

    def _fast_port(self, port: str) -> None:
        self._title("Its port on a fast network, as Neutron and rt-1 have it")
        show = ("openstack", "port", "show", _PORT)
        columns = [word for name in _FIELDS for word in ("-c", name)]
        self._say(
            f"$ {' '.join(show)}",
            self._cloud.run(*show, *columns).rstrip(),
            f"{RT} # sriov-rt vif list",
            self._vif("list").rstrip(),
        )
        found = self._cloud.api.network.get_port(port)
        _expect(found.binding_vif_type == "sriov_rt", "its VIF is sriov_rt's")
        plugged = json.loads(self._vif("show", port, "--json"))
        _expect(plugged["state"] == "plugged", f"{_PORT} is plugged")
        self._note(
            "fast port",
            f"{plugged['kind']} on {plugged['parent']}, a VF of rt-1",
        )

    def _vif(self, *arguments: str) -> str:
        program = str(self._cloud.env.program("sriov-rt"))
        return self._cloud.host(RT).run(
            program, "vif", *arguments, timeout=_COMMAND_SECONDS
        )

    def _console(self, server: Server) -> None:
        text = self._cloud.servers.wait_console(server.id, guest_image.READY)
        (line,) = (x for x in text.splitlines() if guest_image.READY in x)
        line = line[line.index(guest_image.READY) :]
        self._note("console", f"{server.name}: {line}")

    def _clean(self, *servers: Server) -> None:
        for name in sorted({server.host for server in servers}):
            left = self._cloud.host(name).leftovers()
            _expect(not left, f"{name} is as before: {', '.join(left)}")
        ports = json.loads(self._vif("list", "--json"))
        _expect(not ports, f"{RT} has no port: {ports}")
        self._note("deleted", "nothing is left of them on their hosts")

    def _note(self, what: str, detail: str) -> None:
        self._shown.append(Shown(what, detail))

    def _summary(self) -> None:
        self._title("Seen")
        for each in self._shown:
            self._say(f"  {each.what:<14} {each.detail}")

    def _title(self, text: str) -> None:
        if self._text:
            self._say("")
        self._say(text, "-" * len(text))

    def _say(self, *lines: str) -> None:
        self._text += lines


def _wrapped(what: str, items: Sequence[str]) -> str:
    """Return a list of items, wrapped for a terminal.

    :param what: what the items are.
    :param items: the items.
    """
    return textwrap.fill(
        ", ".join(items) or "none",
        width=78,
        initial_indent=f"  {what:<10} ",
        subsequent_indent=" " * 13,
    )


def _expect(truth: bool, what: str) -> None:
    if not truth:
        raise Surprise(f"not as it should be: {what}")


@contextlib.contextmanager
def _hangs_first(cloud: Cloud) -> Iterator[None]:
    """Report a machine that hangs instead of the resulting error.

    :raises errors.TestbedError: when one hangs and the block fails.
    """
    try:
        yield
    except (errors.TestbedError, *api.ERRORS):
        try:
            cloud.check()
        except errors.MachineHangs as hangs:
            raise errors.TestbedError(
                f"{hangs}; `tools/demo down`, then try again"
            ) from hangs
        raise


def main() -> int:
    """Show the demonstration in our cloud, and return the exit status."""
    try:
        cloud = Cloud()
        result = cloud.place.log / RESULT
        with _hangs_first(cloud):
            result.write_text(Show(cloud).run())
    except (errors.TestbedError, *api.ERRORS) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
