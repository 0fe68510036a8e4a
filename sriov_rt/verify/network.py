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

"""Network measurements: parity, requests and responses, packets.

Throughput both ways as seed 000 measured it, requests and responses with up
to 36 streams as seed 004 did, packets of 64 bytes as seed 001. The other end
is another host's ``sriov-rt verify network serve``, or another network
namespace of this one.
"""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.host import conditions
from sriov_rt.host.root import Root
from sriov_rt.parse import duration
from sriov_rt.verify import iperf3
from sriov_rt.verify import netperf
from sriov_rt.verify import pktgen
from sriov_rt.verify import process
from sriov_rt.verify import results
from sriov_rt.verify import sockperf
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed

#: Begins the name of each file of results.
PREFIX = "network-"

#: iperf3's own port; each stream of sockperf has one after it, over Onload one
#: after those, and then netserver's come.
PORT = 5201

#: Streams of seed 004, from one to all of its CPUs.
STREAMS = (1, 2, 4, 9, 18, 36)
MAX_STREAMS = 64

_NETPERF = 2 * MAX_STREAMS + 1
_NETPERF_ONLOAD = _NETPERF + 1

#: What is measured.
SEND = "send"
RECEIVE = "receive"
REQUESTS = "requests"
PACKETS = "packets"

#: Between what it is measured.
TWO_HOSTS = "two hosts"
ONE_HOST = "one host"
NAMESPACES = "namespaces of one host"

#: Before the process id of a namespace without a name: a container's.
PID = "pid:"

#: The name of what others are compared with.
BASE = "host"

#: What runs a program over Onload, with the profile of seed 004.
ONLOAD = ("onload", "--profile=latency")

_SLACK_S = 60.0

#: Seconds in which netperf has to have found its server.
_KNOCK_S = 10.0
_MAX_FILE = 64 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One measurement.

    :param name: what the traffic passes, such as ``host``, ``vf`` or
        ``macvlan``: the operator's word.
    :param test: SEND, RECEIVE, REQUESTS or PACKETS.
    :param streams: connections at once.
    """

    name: str
    test: str
    streams: int
    duration_s: int
    onload: bool = False

    @property
    def file(self) -> str:
        """The name of its file."""
        onload = "-onload" if self.onload else ""
        return f"{PREFIX}{self.name}{onload}-{self.test}-{self.streams}.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A cell and what came of it.

    :param way: between what it was measured: TWO_HOSTS, ONE_HOST or
        NAMESPACES.
    :param started_at: Unix time in seconds.
    :param emulated: the host is a virtual machine itself: the figures say
        nothing of any hardware.
    :param figure: bits, requests or packets a second; None with a problem.
    :param error: standard error of the figure; 0 where it is not known.
    :param p99_us: of half a round trip; None but for REQUESTS.
    :param received: packets a second that arrived; None but for PACKETS.
    :param problem: why there is no figure; empty where there is one.
    :param tool: "netperf" for REQUESTS by that; empty by the program that
        every host has (iperf3, sockperf, pktgen).
    """

    cell: Cell
    way: str
    kernel: str
    version: str
    command: str
    started_at: float
    emulated: bool
    figure: float | None
    error: float = 0.0
    p99_us: float | None = None
    received: float | None = None
    problem: str = ""
    tool: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Packets:
    """Interfaces between which packets are counted.

    :param source: sends, in the client's namespace.
    :param sink: receives, in the server's.
    """

    source: str
    sink: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of a measurement.

    :param address: of the server.
    :param port: its first.
    :param namespace: of the client, by name or as ``pid:N``; empty for this
        one.
    :param server: namespace in which servers are started for the time,
        likewise; empty where another host serves.
    """

    address: str
    port: int = PORT
    namespace: str = ""
    server: str = ""

    def inside(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return a command line that runs in the client's namespace."""
        return _inside(self.namespace, command)


def _inside(namespace: str, command: Sequence[str]) -> tuple[str, ...]:
    if not namespace:
        return tuple(command)
    number = namespace.removeprefix(PID)
    if number != namespace:
        path = f"/proc/{number}/ns/net"
    else:
        path = f"/run/netns/{namespace}"
    return ("nsenter", f"--net={path}", "--", *command)


def way(ends: Ends) -> str:
    """Return between what it is measured.

    An address of the client's namespace, or of this one, is this host's. One
    that only another namespace has can't be told from another host's.
    """
    if ends.server:
        return NAMESPACES
    if _is_local(ends.namespace, ends.address):
        return ONE_HOST
    if ends.namespace and _is_local("", ends.address):
        return NAMESPACES
    return TWO_HOSTS


def _is_local(namespace: str, address: str) -> bool:
    """Return whether an address is one of a namespace's own."""
    command = _inside(namespace, ("ip", "-json", "route", "get", address))
    lines = process.Lines(_MAX_FILE)
    try:
        process.run(command, _SLACK_S, lines.feed)
        (found,) = json.loads(lines.whole())
        return bool(found["type"] == "local")
    except (RunFailed, ValueError, TypeError, KeyError):
        # No route, or no such namespace: what is measured says so.
        return False


def cells(
    name: str,
    streams: Iterable[int],
    duration_s: int,
    *,
    onload: bool,
    packets: bool,
) -> Iterator[Cell]:
    """Yield the cells of a measurement."""
    for test in (SEND, RECEIVE):
        yield Cell(name, test, 1, duration_s)
    for count in streams:
        yield Cell(name, REQUESTS, count, duration_s)
        if onload:
            yield Cell(name, REQUESTS, count, duration_s, onload=True)
    if packets:
        yield Cell(name, PACKETS, 1, duration_s)


def servers(
    address: str, port: int, streams: int, *, onload: bool
) -> Iterator[tuple[str, ...]]:
    """Yield the command line of each server; netperf's where it is installed.

    :param streams: the most at once; each has a server of its own, over
        Onload one more.
    """
    if netperf.serves():
        yield netperf.server(address, port + _NETPERF)
        if onload:
            yield (*ONLOAD, *netperf.server(address, port + _NETPERF_ONLOAD))
    yield iperf3.server(address, port)
    for number in range(1, streams + 1):
        yield sockperf.server(address, port + number)
        if onload:
            yield (
                *ONLOAD,
                *sockperf.server(address, port + MAX_STREAMS + number),
            )


@contextlib.contextmanager
def serving(
    commands: Iterable[Sequence[str]], namespace: str = ""
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep servers running.

    :param namespace: in which they run, by name or as ``pid:N``; empty for
        this one.
    :raises RunFailed: if one ends at once: its port is taken.
    """
    children: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            children.append(process.spawn(_inside(namespace, command)))
        time.sleep(_SETTLE_S)
        check(children)
        yield children
    finally:
        for child in children:
            child.terminate()
        for child in children:
            try:
                child.wait(_END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


#: Seconds until a server that can't have its port has ended, and until one
#: that is to end has.
_SETTLE_S = 1.0
_END_S = 5.0


def check(children: Iterable[subprocess.Popen[bytes]]) -> None:
    """Refuse servers that have ended.

    :raises RunFailed: which one.
    """
    for child in children:
        if child.poll() is not None:
            words = [str(each) for each in child.args]  # type: ignore
            raise RunFailed(
                "server",
                f"'{' '.join(words)}' ended; is its port in use, or its "
                "address another host's?",
            )


def missing(
    onload: bool, namespaces: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield each program that is not there, and its package."""
    programs = {
        iperf3.TOOL: iperf3.PACKAGE,
        sockperf.TOOL: sockperf.PACKAGE,
    }
    if onload:
        programs[ONLOAD[0]] = "onload"
    if any(namespaces):
        programs["nsenter"] = "util-linux"
    for name, package in programs.items():
        if shutil.which(name) is None:
            yield name, package


class Results:
    """The files of a measurement.

    :param directory: made if it is missing.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory

    def get(self, cell: Cell) -> Measured | None:
        """Return what a cell had before; None if it has to be measured."""
        found = results.load(Measured, self.directory / cell.file, _MAX_FILE)
        if found is None or found.figure is None:
            return None
        return found if found.cell == cell else None

    def put(self, measured: Measured) -> None:
        """Keep what came of a cell; as a whole or not at all.

        :raises OSError: if it can't be written.
        """
        results.keep(self.directory / measured.cell.file, measured)

    def all(self) -> list[Measured]:
        """Return all that is kept there, whatever its name is."""
        return results.load_all(
            Measured, self.directory, f"{PREFIX}*.json", _MAX_FILE
        )


def silent(cell: Cell, left: int) -> None:
    """Show no progress."""


class NetworkRun:
    """Measures cells, and keeps what came of each.

    :param packets: interfaces of PACKETS.
    """

    def __init__(
        self,
        root: Root,
        ends: Ends,
        results: Results,
        packets: Packets | None = None,
    ) -> None:
        self._ends = ends
        self._way = way(ends)
        self._results = results
        self._packets = packets
        release = root.read_text("proc/sys/kernel/osrelease")
        self._kernel = "" if isinstance(release, Unknown) else release.strip()
        self._emulated = conditions.emulated(root)
        self._netperf = False

    def run(
        self,
        wanted: Sequence[Cell],
        *,
        resume: bool,
        progress: Callable[[Cell, int], object] = silent,
    ) -> tuple[list[Measured], bool]:
        """Measure the cells that are not there yet.

        A cell that can't be measured is kept with its problem, and the next
        has its turn.

        :param progress: is called before each, with how many are left.
        :returns: what was measured, and whether Ctrl-C ended it.
        :raises RunFailed: if a server can't run.
        :raises OSError: if results can't be written.
        """
        found: list[Measured] = []
        try:
            with self._servers(wanted) as children:
                self._netperf = self._has_netperf(wanted)
                for number, cell in enumerate(wanted):
                    kept = self._results.get(cell) if resume else None
                    if kept is None or kept.tool != self._tool(cell):
                        progress(cell, len(wanted) - number)
                        kept = self._measure(cell)
                        self._results.put(kept)
                    found.append(kept)
                    check(children)
        except KeyboardInterrupt:
            return found, True
        return found, False

    @contextlib.contextmanager
    def _servers(
        self, wanted: Sequence[Cell]
    ) -> Iterator[list[subprocess.Popen[bytes]]]:
        if not self._ends.server:
            yield []
            return
        commands = servers(
            self._ends.address,
            self._ends.port,
            max(each.streams for each in wanted),
            onload=any(each.onload for each in wanted),
        )
        with serving(commands, self._ends.server) as children:
            yield children

    def _has_netperf(self, wanted: Sequence[Cell]) -> bool:
        """Return whether netperf is at both ends: it measures for a second."""
        requests = [each for each in wanted if each.test == REQUESTS]
        if not requests or not netperf.measures():
            return False
        command = netperf.command(
            self._ends.address, self._ends.port + _NETPERF, 1
        )
        try:
            ended = process.run(self._ends.inside(command), _KNOCK_S)
        except RunFailed:
            # A firewall drops what it says to the server.
            return False
        if ended.interrupted:
            raise KeyboardInterrupt
        return ended.code == 0

    def _tool(self, cell: Cell) -> str:
        by_netperf = self._netperf and cell.test == REQUESTS
        return netperf.TOOL if by_netperf else ""

    def _measure(self, cell: Cell) -> Measured:
        base = Measured(
            cell=cell,
            way=self._way,
            kernel=self._kernel,
            version="",
            command=" ".join(self._command(cell, 1)),
            started_at=time.time(),
            emulated=self._emulated,
            figure=None,
            tool=self._tool(cell),
        )
        measure = {
            REQUESTS: self._requests,
            PACKETS: self._count,
        }.get(cell.test, self._throughput)
        try:
            return measure(cell, base)
        except (RunFailed, OutputInvalid) as error:
            return dataclasses.replace(base, problem=str(error))

    def _command(self, cell: Cell, number: int) -> tuple[str, ...]:
        """Return the command line of a stream, from 1 on."""
        ends = self._ends
        if cell.test == PACKETS:
            packets = self._packets or Packets("", "")
            mac = self._mac(packets.sink)
            return ends.inside(
                pktgen.command(
                    packets.source, ends.address, mac, cell.duration_s
                )
            )
        if cell.test != REQUESTS:
            return ends.inside(
                iperf3.command(
                    ends.address,
                    ends.port,
                    cell.duration_s,
                    reverse=cell.test == RECEIVE,
                )
            )
        if self._netperf:
            place = _NETPERF_ONLOAD if cell.onload else _NETPERF
            command = netperf.command(
                ends.address, ends.port + place, cell.duration_s
            )
        else:
            port = ends.port + number + (MAX_STREAMS if cell.onload else 0)
            command = sockperf.command(ends.address, port, cell.duration_s)
        return ends.inside((*ONLOAD, *command) if cell.onload else command)

    def _throughput(self, cell: Cell, base: Measured) -> Measured:
        output = self._output(cell, 1)
        version, bits, error = iperf3.parse(output, cell.duration_s)
        return dataclasses.replace(
            base, version=version, figure=bits, error=error
        )

    def _requests(self, cell: Cell, base: Measured) -> Measured:
        outputs: dict[int, bytes] = {}
        problems: list[Exception] = []

        def stream(number: int) -> None:
            try:
                outputs[number] = self._output(cell, number)
            except RunFailed as error:
                problems.append(error)

        threads = [
            threading.Thread(target=stream, args=(number,), daemon=True)
            for number in range(2, cell.streams + 1)
        ]
        for thread in threads:
            thread.start()
        # Ctrl-C reaches this thread alone; the others end by themselves.
        outputs[1] = self._output(cell, 1)
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]
        if self._netperf:
            return dataclasses.replace(
                base,
                version=self._netperf_version(),
                figure=netperf.parse(list(outputs.values()), cell.duration_s),
            )
        version, rate, error, p99_us = sockperf.parse(
            list(outputs.values()), cell.duration_s
        )
        return dataclasses.replace(
            base, version=version, figure=rate, error=error, p99_us=p99_us
        )

    def _netperf_version(self) -> str:
        lines = process.Lines(netperf.MAX_OUTPUT)
        process.run((netperf.TOOL, "-V"), _SLACK_S, lines.feed)
        return netperf.version(lines.whole())

    def _count(self, cell: Cell, base: Measured) -> Measured:
        before, began = self._counter(), time.monotonic()
        _, sent = pktgen.parse(self._output(cell, 1))
        after, elapsed = self._counter(), time.monotonic() - began
        # The time counts that the script needs, too: never too good.
        return dataclasses.replace(
            base,
            version=self._kernel,
            figure=sent,
            received=max(after - before, 0) / elapsed,
        )

    def _output(self, cell: Cell, number: int) -> bytes:
        """Run one program and return its output.

        :raises KeyboardInterrupt: after Ctrl-C, when it has ended.
        """
        command = self._command(cell, number)
        lines = process.Lines(iperf3.MAX_OUTPUT)
        limit = cell.duration_s + iperf3.OMIT_S + _SLACK_S
        ended = process.run(command, limit, lines.feed)
        if ended.interrupted:
            raise KeyboardInterrupt
        if ended.code != 0:
            said = iperf3.complaint(lines.whole())
            raise RunFailed(command[0], said or ended.last_line())
        return lines.whole()

    def _counter(self) -> int:
        packets = self._packets
        assert packets is not None
        lines = process.Lines(1024 * 1024)
        command = _inside(self._ends.server, ("cat", "/proc/net/dev"))
        ended = process.run(command, _SLACK_S, lines.feed)
        if ended.code != 0:
            raise RunFailed(command[0], ended.last_line())
        return pktgen.received(lines.whole(), packets.sink)

    def _mac(self, interface: str) -> str:
        command = _inside(
            self._ends.server, ("ip", "-json", "link", "show", interface)
        )
        lines = process.Lines(1024 * 1024)
        ended = process.run(command, _SLACK_S, lines.feed)
        try:
            (found,) = json.loads(lines.whole())
            return str(found["address"])
        except (ValueError, TypeError, KeyError):
            raise RunFailed("ip", ended.last_line()) from None


def resolve(address: str) -> str:
    """Return the numeric address of a host.

    :raises RunFailed: if it has none.
    """
    try:
        (first, *_) = socket.getaddrinfo(address, None, socket.AF_INET)
    except (OSError, UnicodeError) as error:
        raise RunFailed("network", f"'{address}': {error}") from None
    return str(first[4][0])


def planned(wanted: Sequence[Cell], ends: Ends) -> Iterator[str]:
    """Yield what would run, a line each."""
    whole = sum(each.duration_s for each in wanted)
    yield (
        f"{len(wanted)} runs between {way(ends)}, "
        f"{duration.format_duration(whole)}"
    )
    for cell in wanted:
        yield f"  {cell.file.removeprefix(PREFIX).removesuffix('.json')}"


#: What a table of measurements has.
COLUMNS = (
    "Name",
    "Test",
    "Streams",
    "Figure",
    "p99 µs",
    "Against",
    "Seed",
    "Same way",
)


def rows(found: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Yield a row of each cell that was measured, as COLUMNS has it."""
    figures = {
        (each.cell, each.tool): each.figure for each in found if each.figure
    }
    for each in found:
        cell, figure = each.cell, each.figure
        if figure is None:
            continue
        yield (
            cell.name,
            cell.test + (", Onload" if cell.onload else ""),
            str(cell.streams),
            _shown(each),
            "-" if each.p99_us is None else f"{each.p99_us:.0f}",
            _against(each, figure, figures),
            seed(cell),
            same_way(each),
        )


def _shown(each: Measured) -> str:
    figure = each.figure or 0.0
    if each.cell.test in (SEND, RECEIVE):
        return f"{figure / 1e9:.2f} Gb/s"
    if each.cell.test == REQUESTS:
        return f"{figure:.0f}/s"
    return f"{figure / 1e6:.2f} Mpps, {(each.received or 0) / 1e6:.2f} in"


def _against(
    measured: Measured, figure: float, figures: dict[tuple[Cell, str], float]
) -> str:
    """Return the ratio to what it is compared with, by the same program."""
    cell = measured.cell
    if cell.onload:
        other = dataclasses.replace(cell, onload=False)
        label = "kernel"
    else:
        other = dataclasses.replace(cell, name=BASE)
        label = BASE
    base = figures.get((other, measured.tool))
    if other == cell or base is None:
        return "-"
    return f"{figure / base:.2f} × {label}"


def seed(cell: Cell) -> str:
    """Return what the seeds measured there."""
    if cell.test in (SEND, RECEIVE):
        # Seed 000, 10 Gb Ethernet at MTU 1500, in a container and not.
        return "9.41 Gb/s, 1.00 × host"
    if cell.test == PACKETS:
        # Seed 001, a VF of 10 Gb Ethernet.
        return "3.5 Mpps, 1.9 in"
    known = {1: "8 × kernel", 36: "15 × kernel"}
    # Seed 004, two 100 Gb cards back to back.
    return known.get(cell.streams, "-") if cell.onload else "-"


def same_way(each: Measured) -> str:
    """Return whether it was measured as the seed did; why not."""
    cell = each.cell
    if cell.test == REQUESTS and each.tool != netperf.TOOL:
        return "no: sockperf for netperf"
    if each.way != TWO_HOSTS:
        return f"no: {each.way}"
    if cell.test == REQUESTS:
        # Seed 004 does not say for how long.
        return "yes"
    if cell.duration_s != iperf3.DURATION_S:
        return f"no: {cell.duration_s} s"
    return "yes"
