# SPDX-License-Identifier: Apache-2.0

import pathlib
import threading

from sriov_rt.codec import Unknown
from sriov_rt.host import port_counts
from sriov_rt.host.root import Root
from sriov_rt.vif import errors
from sriov_rt.vif.counts import Counts
from sriov_rt.vif.model import Kind
from tests.unit.vif import fakes
from tests.unit.vif.fakes import asked


class CountsTest(fakes.HostTest):
    def setUp(self):
        super().setUp()
        self.root = self.directory.parent
        self.place = self.root / port_counts.DIRECTORY
        self.counts = Counts(self.place)
        self.counted = self.another(counts=self.counts)

    def found(self):
        return port_counts.observe(Root(str(self.root)))

    def test_a_port_comes_and_goes(self):
        self.assertEqual({}, self.found())
        want = asked(Kind.VF)
        self.counted.plug(want)
        self.counted.plug(want)  # it is there
        self.counted.unplug(want.port)
        self.counted.unplug(want.port)  # it is gone
        self.assertEqual(
            {("plug", "ok"): 1, ("unplug", "ok"): 1}, self.found()
        )

    @staticmethod
    def vf(number):
        name = f"eth{number}"
        return asked(Kind.VF, port=fakes.port(number), name=name)

    def test_a_refusal_by_its_name(self):
        for number in range(3):
            self.counted.plug(self.vf(number))
        with self.assertRaises(errors.NoParent):
            self.counted.plug(self.vf(3))
        self.assertEqual(1, self.found()["plug", "NoParent"])

    def test_a_recovery(self):
        want = asked(Kind.VF)
        self.host.clock.set(20)
        with self.assertRaises(fakes.Killed):
            self.counted.plug(want)
        self.host.clock.set(None)
        self.counted.recover()
        self.assertEqual(1, self.found()["recover", "undone"])

    def test_processes_count_beside_each_other(self):
        threads = [
            threading.Thread(
                target=lambda: [
                    self.counts.add("plug", "ok") for _ in "x" * 50
                ]
            )
            for _ in range(4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual({("plug", "ok"): 200}, self.found())

    def test_a_port_does_not_depend_on_it(self):
        self.place.parent.mkdir(parents=True)
        self.place.write_text("a file")
        with self.assertLogs("sriov_rt.vif.counts", "DEBUG"):
            self.counted.plug(asked(Kind.VF))
        self.assertIsInstance(self.found(), Unknown)

    def test_other_files_are_passed_over(self):
        self.place.mkdir(parents=True)
        for name in ("x", "plug.a-b", "PLUG.ok", "plug.ok.x"):
            (self.place / name).write_text("1")
        (self.place / "plug.directory").mkdir()
        (self.place / "plug.link").symlink_to("/dev/zero")
        self.assertEqual({}, self.found())

    def test_a_link_is_not_followed(self):
        target = pathlib.Path(self.root) / "target"
        target.write_text("")
        self.place.mkdir(parents=True)
        (self.place / "plug.ok").symlink_to(target)
        self.counts.add("plug", "ok")
        self.assertEqual("", target.read_text())
