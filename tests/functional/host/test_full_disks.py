# SPDX-License-Identifier: Apache-2.0

"""Every store of a host, on a disk that is full and on one that is read-only.

The disks are real ones, of a thread's own mount namespace. What was written
before stays, and the operator reads which file it was and what to do next.
"""

import contextlib
import dataclasses
import errno
import io
import logging
import pathlib
import tempfile
import unittest
from collections.abc import Callable
from collections.abc import Iterator
from concurrent import futures
from typing import NamedTuple

from sriov_rt import exceptions
from sriov_rt.agent import withdrawal
from sriov_rt.cmd import faults
from sriov_rt.cmd import host_maintenance
from sriov_rt.cmd import paths
from sriov_rt.codec import Unknown
from sriov_rt.devices import cleaning
from sriov_rt.facts import HostHold
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import certificate
from sriov_rt.facts.certificate import Certificate
from sriov_rt.facts.culprit import Culprit
from sriov_rt.guest.claims import Claims
from sriov_rt.host import latency
from sriov_rt.host import port_counts
from sriov_rt.host.interfaces import DEVICES
from sriov_rt.host.root import Root
from sriov_rt.labels import store as label_store
from sriov_rt.labels.feature_file import FeatureFile
from sriov_rt.labels.last_known import LastKnown
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.reason import reason
from sriov_rt.tuning import records as tuning
from sriov_rt.verify import certificate as issued
from sriov_rt.verify import results
from sriov_rt.verify import watch
from sriov_rt.vif.counts import Counts
from sriov_rt.vif.lost import LostPorts
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Record
from sriov_rt.vif.records import Records
from tests.testbed import isolation
from tests.testbed.isolation import sh
from tests.unit import builders
from tests.unit.host import trees
from tests.unit.nic.test_tenancy import POD
from tests.unit.nic.test_tenancy import VF

#: What an operator does about each, as the sentence has it: /run, which is
#: in memory, is full at times, and never read-only but by a mistake.
REMEDIES = {
    errno.ENOSPC: "free space on its file system",
    errno.EROFS: "mount .* writable|root can write",
}

GUEST = "11111111-2222-3333-4444-555555555555"
PORT = "6b1d4b0e-6f0e-4f0e-9d0e-000000000001"
WHY = "CPU 2 had a latency of 99 µs"
RUNTIME = "proc/sys/kernel/sched_rt_runtime_us"

#: Of a record that takes a page more than a disk has that is full.
OLD, NEW = "old", "n" * 150

Write = Callable[[Root, str], object]


class Store(NamedTuple):
    """A store.

    :param directory: of it, below the root.
    :param write: writes a text, or something that hangs on it.
    """

    directory: str
    write: Write


def _record(text: str) -> Record:
    return Record(
        *("boot", PORT, text, Kind.MACVLAN, "bridge", "eth1", None, None, 7),
        *("enp1s0", 2, None, "enp1s0", "02:00:00:00:00:01", False),
        Plug(PORT, text, Kind.MACVLAN, "bridge"),
    )


def _certificate(root: Root, text: str) -> None:
    found = dataclasses.replace(trees.CERTIFICATE, profile=text)
    issued.write(found, root.path)


def _withdrawal(root: Root, text: str) -> None:
    runtime = "950000" if text == OLD else "-1"
    (root.path / RUNTIME).write_text(f"{runtime}\n")
    latency.observe(root, keep=withdrawal.Keeper().keep)


def _hold(root: Root, text: str) -> None:
    host_maintenance.write(root, HostHold("me", text, 1.0))


def _tuning(root: Root, text: str) -> None:
    records = tuning.Records(root)
    with records.locked():
        records.write(tuning.Record(codes=(text,), undone="boot"))


def _claim(root: Root, text: str) -> None:
    Claims(root).claim(GUEST, CpuSet({"old": (2, 3)}.get(text, (6, 7))))


def _cleaned(root: Root, text: str) -> None:
    why = reason("devices_unknown", why=text)
    outcome = cleaning.Outcome(VF, cleaning.State.RESERVED, None, why)
    cleaning.keep(root, [outcome], 1.0)


def _labels(root: Root, text: str) -> None:
    origin = label_store.Origin("rt-1", "boot")
    known = LastKnown(
        *({}, 60.0, None, root.path / "var/lib/sriov-rt/labels.json"),
        dataclasses.replace(origin, host=text),
    )
    known.write(known.record())


def _features(root: Root, text: str) -> None:
    path = root.path / "var/lib/features/sriov-rt"
    path.parent.mkdir(exist_ok=True)
    FeatureFile(path, 60.0 + len(text)).update(builders.realtime_host())


def _textfile(root: Root, text: str) -> None:
    paths.write(root.path / "var/vfs.prom", text.encode())


STORES = {
    "certificate": Store("var/lib/sriov-rt-verify", _certificate),
    "result": Store(
        "var/lib/sriov-rt-verify",
        lambda root, text: results.keep(
            root.path / watch.TICKETS / "breach-1.json",
            Culprit("thread", text, 2, 1, 1, "timerlat"),
        ),
    ),
    "agent's withdrawal": Store("var/lib/sriov-rt", _withdrawal),
    "labels": Store("var/lib/sriov-rt", _labels),
    "feature file": Store("var/lib/features", _features),
    "hold": Store("var/lib/sriov-rt-verify", _hold),
    "tuning": Store("var/lib/sriov-rt-tuning", _tuning),
    "textfile": Store("var", _textfile),
    "VF": Store(
        "run/sriov-rt/vfs",
        lambda root, text: Tenancies(root).assign(
            VF, dataclasses.replace(POD, network=text)
        ),
    ),
    "port": Store(
        "run/sriov-rt/vif",
        lambda root, text: Records(root.path / "run/sriov-rt/vif").put(
            _record(text)
        ),
    ),
    "lost port": Store(
        "run/sriov-rt/vif",
        lambda root, text: LostPorts(
            Records(root.path / "run/sriov-rt/vif")
        ).put(_record(text)),
    ),
    "claim": Store("run/sriov-rt/cpus", _claim),
    "reserved devices": Store("run/sriov-rt", _cleaned),
}


class FullDiskTest(unittest.TestCase):
    """A host of files, whose /var and /run are disks of their own."""

    def test_each_store_keeps_what_it_has_and_says_what_to_do(self) -> None:
        self.apart(self.check_stores)

    def test_a_certificate_falls_all_the_same(self) -> None:
        self.apart(self.check_certificate)

    def test_an_agent_remembers_what_it_cannot_write(self) -> None:
        self.apart(self.check_agent)

    def test_a_failure_for_want_of_room_is_counted(self) -> None:
        self.apart(self.check_counts)

    def apart(self, check: Callable[[int], None]) -> None:
        """Run a check for both, in a mount namespace that ends with it."""

        def run(number: int) -> None:
            isolation.leave()
            check(number)

        for number in REMEDIES:
            with (
                self.subTest(errno.errorcode[number]),
                futures.ThreadPoolExecutor(1) as pool,
            ):
                pool.submit(run, number).result()

    def check_stores(self, number: int) -> None:
        for name, store in STORES.items():
            with self.subTest(name), host() as root:
                store.write(root, OLD)
                place = root.path / store.directory
                before = contents(place)
                self.assertTrue(before)
                said = []
                with broken(root, store.directory, number), logged() as log:
                    try:
                        store.write(root, NEW)
                    except (exceptions.SriovRtError, OSError) as error:
                        said.append(shown(error))
                    self.assertEqual(before, contents(place))
                said += log.getvalue().splitlines()
                self.assertEqual(1, len(said), said)
                self.assertIn(str(root.path), said[0])
                self.assertRegex(said[0], REMEDIES[number])
                store.write(root, NEW)
                self.assertNotEqual(before, contents(place))

    def check_certificate(self, number: int) -> None:
        with host() as root:
            found = latency.read(root)
            assert isinstance(found, Certificate)
            directory = "var/lib/sriov-rt-verify"
            with broken(root, directory, number), logged() as log:
                issued.withdraw(found, WHY, root.path)
                self.assert_withdrawn(root, WHY)
                issued.retry(root)
                self.assert_withdrawn(root, WHY)
                self.assertRegex(log.getvalue(), REMEDIES[number])
                if number == errno.ENOSPC:
                    # After a boot, and nobody has made room.
                    memory = root.path / certificate.IN_MEMORY_PATH
                    memory.rename(memory.with_suffix(".away"))
                    self.assert_withdrawn(root, "took no data")
                    memory.with_suffix(".away").rename(memory)
            issued.retry(root)
            for path in (certificate.IN_MEMORY_PATH, certificate.RENAMED_PATH):
                self.assertFalse((root.path / path).exists(), path)
            self.assert_withdrawn(root, WHY)
            again = dataclasses.replace(found, issued_at=found.issued_at + 1)
            issued.write(again, root.path)
            self.assertEqual("", withdrawn(root))

    def assert_withdrawn(self, root: Root, why: str) -> None:
        """The agent reports it, and so its alert stands."""
        self.assertIn(why, withdrawn(root))

    def check_agent(self, number: int) -> None:
        with host() as root:
            keep = withdrawal.Keeper().keep
            runtime = root.path / RUNTIME
            before = runtime.read_text()
            with broken(root, "var/lib/sriov-rt", number), logged() as log:
                for text in ("950000", before, before):
                    runtime.write_text(text)
                    self.assertIn("sched_rt_runtime", withdrawn(root, keep))
                self.assertRegex(log.getvalue(), REMEDIES[number])
            latency.observe(root, keep=keep)
            self.assert_withdrawn(root, "sched_rt_runtime_us")

    def check_counts(self, number: int) -> None:
        if number == errno.EROFS:
            return  # of memory
        with host() as root:
            directory = root.path / port_counts.DIRECTORY
            Counts(directory).add("plug", "ok")
            with broken(root, port_counts.DIRECTORY, number):
                for _ in range(3):
                    Counts(directory).add("plug", "RecordsFull")
                found = port_counts.observe(root)
            assert not isinstance(found, Unknown)
            self.assertEqual(3, found["plug", "RecordsFull"])


def withdrawn(root: Root, keep: latency.Keep | None = None) -> str:
    """Return why the certificate counts no more, as an agent reports it."""
    found = latency.observe(root, keep=keep).certificate
    assert isinstance(found, LatencyCertificate)
    return found.withdrawn


def shown(error: exceptions.SriovRtError | OSError) -> str:
    """Return what a command prints of an error."""
    with contextlib.redirect_stderr(io.StringIO()) as output:
        faults.report(error)
    return output.getvalue()


@contextlib.contextmanager
def host() -> Iterator[Root]:
    """Yield the root of a host, whose /var and /run are small disks."""
    with tempfile.TemporaryDirectory() as place:
        tree = trees.realtime_host(place)
        tree.write(f"{DEVICES}/{VF}/vendor")
        for name in ("var", "run"):
            path = tree.path / name
            path.mkdir(exist_ok=True)
            kept = contents(path)
            options = "size=512k,mode=755"
            sh("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path))
            for relative, data in kept.items():
                tree.write(f"{name}/{relative}", data)
        for name in ("var/lib/sriov-rt", "run/sriov-rt"):
            (tree.path / name).mkdir(exist_ok=True)
        try:
            yield tree.root
        finally:
            sh("umount", str(tree.path / "var"), str(tree.path / "run"))


@contextlib.contextmanager
def broken(root: Root, directory: str, number: int) -> Iterator[None]:
    """Have the disk of a directory full or read-only for a while."""
    disk = root.path / pathlib.PurePath(directory).parts[0]
    ballast = disk / "ballast"
    if number == errno.EROFS:
        sh("mount", "-o", "remount,ro", str(disk))
    else:
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
    try:
        yield
    finally:
        if number == errno.EROFS:
            sh("mount", "-o", "remount,rw", str(disk))
        else:
            ballast.unlink()


@contextlib.contextmanager
def logged() -> Iterator[io.StringIO]:
    """Yield what is logged as a warning or an error."""
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setLevel(logging.WARNING)
    logger = logging.getLogger("sriov_rt")
    logger.addHandler(handler)
    try:
        yield output
    finally:
        logger.removeHandler(handler)


def contents(place: pathlib.Path) -> dict[str, bytes]:
    """Return each file below a directory; those of locks are of nobody."""
    return {
        str(each.relative_to(place)): each.read_bytes()
        for each in sorted(place.rglob("*"))
        if each.is_file() and "lock" not in each.name
        if each.name != "ballast"
    }
