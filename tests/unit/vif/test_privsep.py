# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import msgpack
from oslo_config import cfg
from oslo_privsep import capabilities

from sriov_rt.kernel.tc import Limits
from sriov_rt.vif import counts
from sriov_rt.vif import plugger
from sriov_rt.vif import privsep
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from tests.unit.vif import fake_plugger

CAPABILITIES = """\
from sriov_rt.vif import privsep
print(*privsep.vif_plug.conf.capabilities)
"""
PORT = "0f6b7f4a-2a3c-4a5e-9f0b-6b5d1c2e3f40"
WANT = Plug(
    port=PORT,
    owner="someone",
    kind=Kind.MACVLAN,
    mode="bridge",
    physical_network="physnet1",
    name="srt0",
    limits=Limits(8000, None),
)


def through(function):
    """Return a function whose call and answer go as to another process."""

    def call(*arguments):
        sent = msgpack.unpackb(msgpack.packb(arguments), use_list=False)
        answer = function(*sent)
        return msgpack.unpackb(msgpack.packb(answer), use_list=False)

    return call


class PrivsepTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = pathlib.Path(place.name, "sriov-rt.conf")
        self.file.write_text(
            f"[vif]\nparents = physnet1:vf0\nrecords = {place.name}/vif\n"
        )
        cfg.CONF.register_opts(privsep.OPTS, group=privsep.GROUP)
        cfg.CONF.set_override(
            "config_file", str(self.file), group=privsep.GROUP
        )
        self.addCleanup(
            cfg.CONF.clear_override, "config_file", group=privsep.GROUP
        )
        self.plugger = fake_plugger.FakePlugger()
        # The counts of this host are not the tests' to change.
        self._patch(counts, "of_host", counts.Counts)
        self._patch(privsep.vif_plug, "client_mode", False)
        for name in ("_plug", "_check", "_offer", "_unplug", "_recover"):
            self._patch(privsep, name, through(getattr(privsep, name)))

    def _patch(self, target, name, new):
        patched = mock.patch.object(target, name, new)
        patched.start()
        self.addCleanup(patched.stop)

    def _without_a_kernel(self):
        self.made = []
        self._patch(
            plugger,
            "of",
            lambda conf: self.made.append(conf) or self.plugger,
        )


class CallTest(PrivsepTest):
    def setUp(self):
        super().setUp()
        self._without_a_kernel()

    def test_a_port_arrives_as_it_was_sent(self):
        found = privsep.plug(WANT)
        self.assertEqual([WANT], self.plugger.asked)
        self.assertEqual(
            dataclasses.asdict(self.plugger.ports[PORT]), dict(found)
        )

    def test_values_are_checked_on_the_privileged_side(self):
        privsep.plug(dataclasses.replace(WANT, mac="02:00:5E:10:00:01"))
        self.assertEqual("02:00:5e:10:00:01", self.plugger.asked.pop().mac)
        for changes, name in (
            ({"port": "../x"}, "ParseError"),
            ({"name": "a/b"}, "NameInvalid"),
            ({"vlan": 4095}, "ParseError"),
        ):
            want = dataclasses.replace(WANT, **changes)
            for act in (privsep.plug, privsep.check):
                with (
                    self.subTest(changes=changes, act=act.__name__),
                    self.assertRaises(privsep.HostRefused) as caught,
                ):
                    act(want)
                self.assertEqual(name, caught.exception.name)
        with self.assertRaises(privsep.HostRefused) as caught:
            privsep.unplug("../x")
        self.assertEqual("ParseError", caught.exception.name)
        self.assertEqual([], self.plugger.asked + self.plugger.checked)

    def test_nothing_is_made_for_who_has_given_up(self):
        """A daemon that was stopped finds the request when it goes on."""
        for act in (privsep.plug, privsep.check):
            clock = mock.Mock()
            # As it is requested, and as the daemon comes to it.
            clock.monotonic.side_effect = [0.0, 10.0**6]
            with (
                mock.patch.object(privsep, "time", clock),
                self.assertLogs("sriov_rt", "WARNING"),
                self.assertRaises(privsep.HostRefused) as caught,
            ):
                act(WANT)
            self.assertIn("is too old", caught.exception.sentence)
        self.assertEqual([], self.plugger.asked + self.plugger.checked)

    def test_a_port_is_checked_as_it_was_sent(self):
        privsep.check(WANT)
        self.assertEqual([WANT], self.plugger.checked)
        self.assertEqual({}, self.plugger.ports)

    def test_an_offer_arrives_as_it_is(self):
        self.assertEqual(self.plugger.offer("lxc"), privsep.offer("lxc"))
        self.assertEqual({"physnet1": 2}, dict(privsep.offer("kvm").parents))

    def test_unplug_tells_whether_there_was_anything(self):
        privsep.plug(WANT)
        self.assertIs(True, privsep.unplug(PORT))
        self.assertIs(False, privsep.unplug(PORT))

    def test_recovery_tells_what_it_did(self):
        self.plugger.undone = (PORT,)
        found = privsep.recover()
        self.assertEqual((PORT,), found["undone"])
        self.assertEqual((), found["failed"])

    def test_an_error_keeps_its_name_and_its_sentence(self):
        self.plugger.fail = fake_plugger.no_parent(PORT)
        for action in (
            lambda: privsep.plug(WANT),
            lambda: privsep.check(WANT),
            lambda: privsep.offer("kvm"),
            lambda: privsep.unplug(PORT),
            privsep.recover,
        ):
            with self.assertRaises(privsep.HostRefused) as caught:
                action()
            self.assertEqual("NoParent", caught.exception.name)
            self.assertEqual(str(self.plugger.fail), str(caught.exception))

    def test_the_plugger_is_made_once(self):
        privsep.unplug(PORT)
        privsep.unplug(PORT)
        self.assertEqual(1, len(self.made))

    def test_the_configuration_is_the_hosts_and_not_the_callers(self):
        privsep.unplug(PORT)
        (conf,) = self.made
        self.assertEqual([str(self.file)], conf.config_file)
        self.assertIsNot(cfg.CONF, conf)


class AllowedTest(PrivsepTest):
    """What a service without privileges may ask for."""

    def test_nothing_beyond_the_parents_of_the_pools(self):
        for changes, said in (
            ({"namespace": "pid:1"}, "a namespace"),
            ({"addresses": ("192.0.2.1/24",)}, "addresses"),
            ({"routes": (("default", "192.0.2.254"),)}, "routes"),
            ({"parent": "bond0", "physical_network": None}, "parent bond0"),
        ):
            want = dataclasses.replace(WANT, **changes)
            with (
                self.subTest(changes=changes),
                self.assertRaises(privsep.HostRefused) as caught,
            ):
                privsep.plug(want)
            self.assertEqual("NotAllowed", caught.exception.name)
            self.assertIn(said, str(caught.exception))

    def test_a_parent_that_is_in_no_pool(self):
        want = dataclasses.replace(WANT, parent="lo")
        with self.assertRaisesRegex(privsep.HostRefused, "lo"):
            privsep.plug(want)

    def test_what_is_no_port(self):
        for asked in ({}, {"port": PORT}, {"port": 7, "owner": []}):
            with self.subTest(asked=asked):
                with (
                    mock.patch.object(
                        privsep.codec, "to_plain", return_value=asked
                    ),
                    self.assertRaises(privsep.HostRefused) as caught,
                ):
                    privsep.plug(WANT)
                self.assertEqual("SchemaError", caught.exception.name)


class ConfigurationTest(PrivsepTest):
    def test_parents_that_are_none_are_told_of(self):
        self.file.write_text("[vif]\nparents = nonsense\n")
        with self.assertRaisesRegex(privsep.HostRefused, "parents"):
            privsep.plug(WANT)

    def test_a_file_that_is_not_there_is_told_of(self):
        self.file.unlink()
        with self.assertRaisesRegex(privsep.HostRefused, "sriov-rt.conf"):
            privsep.plug(WANT)

    def test_a_host_is_configured_if_it_has_the_file(self):
        self.assertTrue(privsep.is_configured())
        self.file.unlink()
        self.assertFalse(privsep.is_configured())

    def test_a_file_that_only_root_may_see_counts(self):
        hidden = PermissionError(13, "Permission denied")
        with mock.patch.object(pathlib.Path, "stat", side_effect=hidden):
            self.assertTrue(privsep.is_configured())

    def test_the_networks_of_a_host_are_read_without_privileges(self):
        with mock.patch.object(privsep, "_host_plugger", side_effect=OSError):
            self.assertEqual({"physnet1"}, set(privsep.networks()))
            self.file.write_text("[vif]\n")
            self.assertEqual(set(), set(privsep.networks()))
            self.file.unlink()
            self.assertEqual(set(), set(privsep.networks()))

    def test_networks_that_cannot_be_read_are_unknown(self):
        self.file.write_text("[vif]\nparents = nonsense\n")
        self.assertIsNone(privsep.networks())
        self.file.write_text("parents = physnet1:vf0\n")
        self.assertIsNone(privsep.networks())
        denied = cfg.ConfigFilesPermissionDeniedError([str(self.file)])
        with mock.patch.object(privsep.config, "load", side_effect=denied):
            self.assertIsNone(privsep.networks())


class ContextTest(unittest.TestCase):
    def test_the_daemon_keeps_four_capabilities(self):
        # In a process of its own: the default is set once, at the import,
        # and whoever calls cfg.CONF() in this one takes it away.
        done = subprocess.run(
            (sys.executable, "-W", "ignore", "-c", CAPABILITIES),
            capture_output=True,
            check=True,
            text=True,
        )
        self.assertEqual(
            {
                capabilities.CAP_MKNOD,
                capabilities.CAP_NET_ADMIN,
                capabilities.CAP_SYS_ADMIN,
                capabilities.CAP_SYS_PTRACE,
            },
            {int(each) for each in done.stdout.split()},
        )

    def test_the_daemon_finds_it_by_its_name(self):
        self.assertEqual(
            "sriov_rt.vif.privsep.vif_plug", privsep.vif_plug.pypath
        )
        command = privsep.vif_plug.helper_command("/tmp/socket")
        self.assertIn(privsep.vif_plug.pypath, command)
