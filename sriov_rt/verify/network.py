# SPDX-License-Identifier: Apache-2.0

"""Network measurements: parity, requests and responses, packets.

It measures throughput both ways, requests and responses with up to 36
streams, and packets of 64 bytes, each as in a published measurement. The other
end is ``sriov-rt verify network serve`` on another host, or another network
namespace of this host.
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
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt import exceptions
from sriov_rt.codec import Unknown
from sriov_rt.host import conditions
from sriov_rt.host.root import Root
from sriov_rt.kernel import namespaces
from sriov_rt.parse import duration
from sriov_rt.verify import iperf3
from sriov_rt.verify import machine as machines
from sriov_rt.verify import matrix
from sriov_rt.verify import netperf
from sriov_rt.verify import pktgen
from sriov_rt.verify import process
from sriov_rt.verify import published
from sriov_rt.verify import sockperf
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed

#: Prefix of each result file's name.
PREFIX = "network-"

#: iperf3's default port. The ports of sockperf's streams follow, then those of
#: its streams over Onload, then netserver's.
PORT = 5201

#: Streams that Solarflare measured, from one to all of its CPUs.
STREAMS = (1, 2, 4, 9, 18, 36)
MAX_STREAMS = 64

_NETPERF = 2 * MAX_STREAMS + 1
_NETPERF_ONLOAD = _NETPERF + 1

#: Tests.
SEND = "send"
RECEIVE = "receive"
REQUESTS = "requests"
PACKETS = "packets"

#: The two ends of a measurement.
TWO_HOSTS = "two hosts"
ONE_HOST = "one host"
NAMESPACES = "namespaces of one host"

#: Name of the measurement that others are compared with.
BASE = "host"

#: Command prefix that runs a program over Onload, with the latency profile.
ONLOAD = ("onload", "--profile=latency")

_SLACK_S = 60.0

#: Seconds in which netperf has to reach its server.
_KNOCK_S = 10.0
_MAX_OUTPUT = 64 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One measurement.

    :param name: the operator's name for what the traffic passes, such as
        ``host``, ``vf`` or ``macvlan``.
    :param test: SEND, RECEIVE, REQUESTS or PACKETS.
    :param streams: number of concurrent connections.
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
    """Result of one measurement.

    :param way: the two ends: TWO_HOSTS, ONE_HOST or
        NAMESPACES.
    :param started_at: Unix time in seconds.
    :param emulated: whether the host is a virtual machine itself; then the
        figures say nothing about hardware.
    :param figure: bits, requests or packets a second; None with a problem.
    :param error: standard error of the figure; 0 if it is not known.
    :param p99_us: 99th percentile of half a round trip; only for REQUESTS.
    :param received: packets a second that arrived; only for PACKETS.
    :param problem: why there is no figure; empty if there is one.
    :param tool: "netperf" for REQUESTS measured with netperf; empty for the
        default program (iperf3, sockperf, pktgen).
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
    machine: machines.Machine = machines.UNKNOWN

    @property
    def has_figures(self) -> bool:
        """Whether the measurement has figures."""
        return self.figure is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Packets:
    """Interfaces between which packets are counted.

    :param source: interface that sends, in the client's namespace.
    :param sink: interface that receives, in the server's namespace.
    """

    source: str
    sink: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of a measurement.

    :param port: the first port.
    :param namespace: namespace of the client, by name or as ``pid:N``; empty
        for the current one.
    :param server: namespace in which servers are started meanwhile, likewise;
        empty if another host serves.
    """

    address: str
    port: int = PORT
    namespace: str = ""
    server: str = ""

    def inside(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return a command line that runs in the client's namespace."""
        return _inside(self.namespace, command)


def _inside(namespace: str, command: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that runs in a namespace.

    It uses nsenter(1): the command line is kept in the results, so that a
    person can run it again.
    """
    if not namespace:
        return tuple(command)
    path = namespaces.path(namespace)
    return ("nsenter", f"--net={path}", "--", *command)


def way(ends: Ends) -> str:
    """Return the kind of the two ends.

    An address of the client's namespace or the current one is this host's. An
    address that only another namespace has looks like another host's.
    """
    if ends.server:
        return NAMESPACES
    if _is_local(ends.namespace, ends.address):
        return ONE_HOST
    if ends.namespace and _is_local("", ends.address):
        return NAMESPACES
    return TWO_HOSTS


def _is_local(namespace: str, address: str) -> bool:
    """Return whether an address belongs to a namespace."""
    # If there is no route or no such namespace, the measurement fails later.
    return _route(namespace, address).get("type") == "local"


def _route(namespace: str, address: str) -> dict[str, Any]:
    return _ip(namespace, ("route", "get", address))


def _ip(namespace: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the one object that ``ip`` shows; empty if it is not just one."""
    lines = process.Lines(_MAX_OUTPUT)
    command = _inside(namespace, ("ip", "-json", *words))
    try:
        process.run(command, _SLACK_S, lines.feed)
        (found,) = json.loads(lines.whole())
    except (RunFailed, ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _nic(root: Root, ends: Ends) -> str:
    """Return the interface to the other end, and its device."""
    name = str(_route(ends.namespace, ends.address).get("dev", ""))
    if not name:
        return ""
    link = _ip(ends.namespace, ("-details", "link", "show", name))
    info = link.get("linkinfo")
    kind = info.get("info_kind") if isinstance(info, dict) else None
    place = link.get("parentdev")
    parts = [str(kind)] if kind else []
    if place:
        parts.append(f"{place} {_device(root, str(place))}".strip())
    if not ends.namespace:
        speed = root.read_text(f"sys/class/net/{name}/speed")
        if not isinstance(speed, Unknown) and speed.strip().isdigit():
            parts.append(f"{speed.strip()} Mb/s")
    parts.append(f"MTU {link.get('mtu', 'unknown')}")
    return f"{name}: {', '.join(parts)}"


def _device(root: Root, place: str) -> str:
    """Return the vendor and device id of a PCI device, and its driver."""
    folder = f"sys/bus/pci/devices/{place}"
    ids = [
        text.strip().removeprefix("0x")
        for name in ("vendor", "device")
        if isinstance(text := root.read_text(f"{folder}/{name}"), str)
    ]
    driver = (root.path / folder / "driver").resolve().name
    return " ".join([f"[{':'.join(ids)}]"] * bool(ids) + [driver])


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
    """Yield the command line of each server; netperf's if it is installed.

    :param streams: the most at once; each has a server of its own, and
        another one over Onload.
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
    """Run servers meanwhile.

    :param namespace: namespace of the servers, by name or as ``pid:N``; empty
        for the current one.
    :raises RunFailed: if one ends at once, since its port is in use.
    """
    children: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            children.append(process.spawn(_inside(namespace, command)))
        time.sleep(_LISTEN_S)
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


#: Seconds in which a server exits if its port is in use, and in which it
#: exits after SIGTERM.
_LISTEN_S = 1.0
_END_S = 5.0


def check(children: Iterable[subprocess.Popen[bytes]]) -> None:
    """Check that no server has ended.

    :raises RunFailed: if one has ended.
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
    """Yield each program that is missing, and its package."""
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


class Results(matrix.Results[Measured]):
    """Files of network measurements.

    :param directory: made if it is missing.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory, Measured, PREFIX)


class NetworkRun:
    """Run of network measurements; the result of each cell is kept."""

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
        self._machine = machines.observe(root, _nic(root, ends))
        self._netperf = False

    def run(
        self,
        some: Sequence[Cell],
        *,
        resume: bool,
        progress: Callable[[Cell, int], object] = matrix.silent,
    ) -> tuple[list[Measured], bool]:
        """Measure the cells that have no result yet; see matrix.run.

        :raises RunFailed: if a server can't run.
        """
        try:
            with self._servers(some) as children:
                self._netperf = self._has_netperf(some)

                def measure(cell: Cell) -> Measured:
                    check(children)
                    return self._measure(cell)

                found = matrix.run(
                    some,
                    self._results,
                    measure,
                    resume=resume,
                    progress=progress,
                    is_usable=lambda kept: kept.tool == self._tool(kept.cell),
                )
                if not found[1]:
                    check(children)
                return found
        except KeyboardInterrupt:
            return [], True

    @contextlib.contextmanager
    def _servers(
        self, some: Sequence[Cell]
    ) -> Iterator[list[subprocess.Popen[bytes]]]:
        if not self._ends.server:
            yield []
            return
        commands = servers(
            self._ends.address,
            self._ends.port,
            max(each.streams for each in some),
            onload=any(each.onload for each in some),
        )
        with serving(commands, self._ends.server) as children:
            yield children

    def _has_netperf(self, some: Sequence[Cell]) -> bool:
        """Return whether both ends have netperf, by measuring for a second."""
        requests = [each for each in some if each.test == REQUESTS]
        if not requests or not netperf.measures():
            return False
        command = netperf.command(
            self._ends.address, self._ends.port + _NETPERF, 1
        )
        try:
            ended = process.run(self._ends.inside(command), _KNOCK_S)
        except RunFailed:
            # A firewall drops its packets to the server.
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
            machine=self._machine,
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
        """Return the command line of a stream; numbers start at 1."""
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
        # Only this thread gets Ctrl-C; the others end by themselves.
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
        # It includes the script's overhead, so the rate is never too high.
        return dataclasses.replace(
            base,
            version=self._kernel,
            figure=sent,
            received=max(after - before, 0) / elapsed,
        )

    def _output(self, cell: Cell, number: int) -> bytes:
        """Run one program and return its output.

        :raises KeyboardInterrupt: after Ctrl-C, once the program has ended.
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
        problem = f"'{address}': {exceptions.plain(error)}"
        raise RunFailed("network", problem) from None
    return str(first[4][0])


def planned(some: Sequence[Cell], ends: Ends) -> Iterator[str]:
    """Yield the runs that would be made, a line each."""
    whole = sum(each.duration_s for each in some)
    heading = (
        f"{len(some)} runs between {way(ends)}, "
        f"{duration.format_duration(whole)}"
    )
    yield from matrix.planned(heading, some, PREFIX)


_TESTS = (SEND, RECEIVE, REQUESTS, PACKETS)


def _order(measured: Measured) -> tuple[object, ...]:
    """Return a sort key: a result follows the one it is compared with."""
    cell = measured.cell
    return (
        _TESTS.index(cell.test) if cell.test in _TESTS else len(_TESTS),
        cell.name != BASE,
        cell.name,
        cell.streams,
        cell.onload,
    )


def _key(measured: Measured) -> Hashable:
    return measured.cell, measured.tool


def _figure(measured: Measured) -> str:
    figure = measured.figure or 0.0
    if measured.cell.test in (SEND, RECEIVE):
        return f"{figure / 1e9:.2f} Gb/s"
    if measured.cell.test == REQUESTS:
        return f"{figure:.0f}/s"
    return f"{figure / 1e6:.2f} Mpps, {(measured.received or 0) / 1e6:.2f} in"


def _p99(measured: Measured) -> str:
    return "-" if measured.p99_us is None else f"{measured.p99_us:.0f}"


def _against(measured: Measured, known: Mapping[Hashable, Measured]) -> str:
    """Return the ratio to the base, which the same program measured."""
    cell = measured.cell
    if cell.onload:
        other = dataclasses.replace(cell, onload=False)
        label = "kernel"
    else:
        other = dataclasses.replace(cell, name=BASE)
        label = BASE
    base = known.get((other, measured.tool))
    if other == cell or base is None or not base.figure:
        return "-"
    return f"{(measured.figure or 0.0) / base.figure:.2f} × {label}"


def _source(measured: Measured) -> str:
    """Return the publication that a cell is compared with."""
    if measured.cell.test in (SEND, RECEIVE):
        return published.CERN
    if measured.cell.test == PACKETS:
        return published.VF_PASSTHROUGH
    return published.SOLARFLARE


def _published(measured: Measured) -> str:
    """Return the published figure; "-" for none."""
    cell = measured.cell
    if cell.test in (SEND, RECEIVE):
        return "9.41 Gb/s, 1.00 × host"
    if cell.test == PACKETS:
        return "3.5 Mpps, 1.9 in"
    known = {1: "8 × kernel", 36: "15 × kernel"}
    return known.get(cell.streams, "-") if cell.onload else "-"


def same_way(measured: Measured) -> str:
    """Return "yes" if measured as published; otherwise the differences."""
    cell = measured.cell
    if cell.test == REQUESTS and measured.tool != netperf.TOOL:
        return "no: sockperf for netperf"
    if measured.way != TWO_HOSTS:
        return f"no: {measured.way}"
    if cell.test == REQUESTS:
        # The published duration is not known.
        return "yes"
    if cell.duration_s != iperf3.DURATION_S:
        return f"no: {cell.duration_s} s, not {iperf3.DURATION_S} s"
    return "yes"


TABLE: matrix.Table[Measured] = matrix.Table(
    columns=(
        matrix.Column("Name", lambda x, _: x.cell.name),
        matrix.Column(
            "Test",
            lambda x, _: x.cell.test + (", Onload" if x.cell.onload else ""),
        ),
        matrix.Column("Streams", lambda x, _: str(x.cell.streams)),
        matrix.Column("Figure", lambda x, _: _figure(x)),
        matrix.Column("p99 µs", lambda x, _: _p99(x)),
        matrix.Column("Against", _against),
    ),
    order=_order,
    key=_key,
    source=_source,
    published=_published,
    same_way=same_way,
)
