# SPDX-License-Identifier: Apache-2.0

import pathlib
import tempfile
import threading
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt.host.root import BOOT_ID
from sriov_rt.host.root import Root
from sriov_rt.labels import label_source
from sriov_rt.labels import options
from sriov_rt.labels import service
from sriov_rt.labels import store
from sriov_rt.labels.feature_file import FeatureFile
from sriov_rt.labels.label_source import Wiring
from tests.unit import builders


def nothing():
    pass


class ServiceTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        self.files = self.root / "features.d"
        self.files.mkdir()
        self.conf = cfg.ConfigOpts()
        self.conf.register_opts([cfg.StrOpt("host", default="h")])
        self.conf.register_opts(
            [cfg.StrOpt("root", default=place.name)], group="agent"
        )
        self.conf.register_opts(options.LABEL_OPTS, group=options.GROUP)
        self.conf([])
        self.set(features_dir="/features.d", store=str(self.root / "store"))

    def set(self, **values):
        for name, value in values.items():
            self.conf.set_override(name, value, group=options.GROUP)

    def make(self):
        return service.make(self.conf, nothing, nothing)

    def test_without_sources_the_kernels_labels_are_left(self):
        labels = self.make()
        labels.start()
        host = builders.realtime_host()
        self.assertEqual(
            host.labels.values, labels.complete(host).labels.values
        )
        self.assertEqual(set(), labels.traits(host))
        labels.stop()

    def test_that_there_are_no_sources_is_stored(self):
        labels = self.make()
        labels.store(labels.complete(builders.realtime_host()))
        self.assertEqual({}, store.load(self.root / "store").sources)

    def test_nothing_is_written_where_nothing_is_to_be_stored(self):
        self.set(store="")
        labels = self.make()
        labels.store(labels.complete(builders.realtime_host()))
        labels.stop()
        self.assertEqual([self.files], list(self.root.iterdir()))

    def test_a_source_that_is_not_there(self):
        self.set(sources=["nonsense"])
        with self.assertRaises(label_source.LabelSourceMissing) as caught:
            self.make()
        self.assertIn("correct [labels] sources", str(caught.exception))

    def test_the_kernel_need_not_be_named(self):
        wiring = Wiring(self.conf, nothing, nothing)
        self.assertEqual({}, label_source.load(["kernel"], wiring))

    def test_the_feature_file_comes_and_goes(self):
        self.set(feature_file=True)
        labels = self.make()
        labels.store(labels.complete(builders.realtime_host()))
        file = self.files / options.FEATURE_FILE
        self.assertIn("sriov-rt.ready=true", file.read_text())
        labels.stop()
        self.assertFalse(file.exists())
        # An observation that was under way when the agent stopped.
        labels.store(labels.complete(builders.realtime_host()))
        self.assertFalse(file.exists())

    def test_a_disk_that_hangs_holds_up_neither_facts_nor_the_stop(self):
        self.set(feature_file=True)
        labels = self.make()
        written, hangs = threading.Event(), threading.Event()

        def hang(file, facts):
            hangs.set()
            written.wait(30.0)

        host = builders.realtime_host()
        writer = threading.Thread(target=labels.store, args=(host,))
        with mock.patch.object(FeatureFile, "update", hang):
            writer.start()
            self.assertTrue(hangs.wait(10.0))
        labels.complete(host)
        with (
            mock.patch.object(service, "STOP_S", 0.1),
            self.assertLogs("sriov_rt.labels.service", "WARNING"),
        ):
            labels.stop()
        written.set()
        writer.join()

    def test_traits_of_labels(self):
        self.set(traits=["pci-8086.*"])
        self.assertEqual(
            {"CUSTOM_NFD_PCI_8086_PRESENT"},
            self.make().traits(builders.realtime_host()),
        )

    def test_ignored_patterns(self):
        found = service.pattern(["kubernetes.io/hostname", "x/*"])
        self.assertTrue(found.fullmatch("kubernetes.io/hostname"))
        self.assertTrue(found.fullmatch("x/y"))
        self.assertFalse(found.fullmatch("xx/y"))
        self.assertIsNone(service.pattern([]))

    def test_the_boot_that_labels_are_of(self):
        place = self.root / BOOT_ID
        self.assertEqual("", service.origin("h", Root(self.root)).boot_id)
        place.parent.mkdir(parents=True)
        place.write_text("boot-1\n")
        found = service.origin("h", Root(self.root))
        self.assertEqual(("h", "boot-1"), (found.host, found.boot_id))
