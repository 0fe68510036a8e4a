# SPDX-License-Identifier: Apache-2.0

"""Every option, and the error of its service for a bad value at its start."""

import pathlib
import re
import tempfile
import unittest
from collections.abc import Callable
from collections.abc import Iterator
from unittest import mock

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import opts
from sriov_rt.agent import options as agent_options
from sriov_rt.cmd import agent as agent_command
from sriov_rt.devices import settings as devices
from sriov_rt.kubernetes import options as kubernetes_options
from sriov_rt.neutron import options as neutron_options
from sriov_rt.neutron import this_host
from sriov_rt.nic import provision
from sriov_rt.nova import options as compute_options
from sriov_rt.onload import settings as onload_settings
from sriov_rt.scheduler import options as scheduler_options
from sriov_rt.vif import host as vif_host
from sriov_rt.vif import settings as vif_settings

#: A bad value for each option whose type accepts text; the others are numbers,
#: choices and booleans, for which NONSENSE is bad.
BAD = {
    ("agent", "root"): "host",
    ("agent", "nova_config_files"): "/etc/nova/nova.conf,nova-cpu.conf",
    ("labels", "store"): "labels.json",
    ("labels", "features_dir"): "features.d",
    ("kubernetes", "node_name"): "Node_1",
    ("kubernetes", "kubeconfig"): "~/.kube/config",
    ("kubernetes", "api_server"): "10.0.0.1:6443",
    ("kubernetes", "token_file"): "token",
    ("kubernetes", "ca_file"): "ca.crt",
    ("onload", "profile_directories"): "/etc/onload,profiles",
    ("onload", "profiles"): "mine,../latency",
    ("onload", "default_profile"): "latency",
    ("onload", "also_allow"): "EF_SHARE_WITH,LD_PRELOAD",
    ("onload", "library"): "libonload.so",
    ("onload", "inside"): "opt/onload",
    ("onload", "devices"): "/dev/onload,/etc/shadow",
    ("onload", "resource"): "onload",
    ("onload", "guest_library"): "onload",
    ("vif", "parents"): "physnet1:enp1s0v0,enp1s0v1",
    ("vif", "records"): "run/sriov-rt",
    ("nic", "vfs"): "enp1s0:4,0000:01:00.0",
    ("sriov_rt_agent", "config_file"): "sriov-rt.conf",
    ("os_vif_sriov_rt", "config_file"): "sriov-rt.conf",
    ("ml2_sriov_rt", "physical_networks"): "physnet1,physnet2:tap",
    ("ml2_sriov_rt", "vif"): "tap",
}
NONSENSE = "nonsense"

#: Options that accept any text, and why.
FREE_FORM = {
    ("DEFAULT", "host"): "Nova takes any name for a host",
    ("agent", "node"): "libvirt gives it; Placement has it or has not",
    ("labels", "sources"): "entry points: LabelSourceMissing at assembly",
    ("labels", "ignore"): "each text is a shell pattern",
    ("labels", "traits"): "each text is a shell pattern",
    ("kubernetes", "context"): "a name in the kubeconfig file",
    ("sriov_rt", "transport_url"): "oslo.messaging parses it at assembly",
}

#: Groups whose options keystoneauth checks (PlacementMisconfigured at
#: assembly).
NOT_OURS = {"placement"}


def check_agent(conf: cfg.ConfigOpts) -> None:
    """Check options as sriov-rt-agent does when it starts."""
    agent_options.check(conf)
    place = pathlib.Path(conf.config_file[0])
    with mock.patch.object(agent_command, "CONFIG", place.name):
        conf.set_override("root", str(place.parent), group="agent")
        agent_command.check_observed(conf, "sriov-rt-agent")
    kubernetes_options.check(conf, "sriov-rt-agent")


def check_compute(conf: cfg.ConfigOpts) -> None:
    """Check options as nova-compute does when it starts."""
    compute_options.check(conf)


def check_compute_onload(conf: cfg.ConfigOpts) -> None:
    """Check sriov-rt.conf as nova-compute does."""
    with mock.patch.object(onload_settings.config, "load", return_value=conf):
        compute_options.check_onload()


def check_extension(conf: cfg.ConfigOpts) -> None:
    """Check options as the L2 extension does in an agent of Neutron."""
    conf.register_opt(cfg.StrOpt("state_path", default="/var/lib/neutron"))
    neutron_options.register_extension(conf)


def check_neutron_agent(conf: cfg.ConfigOpts) -> None:
    """Check its own file as sriov-rt-neutron-agent does."""
    neutron_options.register_agent(conf)
    neutron_options.check_agent(conf)


def check_neutron_parents(conf: cfg.ConfigOpts) -> None:
    """Check sriov-rt.conf as sriov-rt-neutron-agent does."""
    with mock.patch.object(this_host.config, "load", return_value=conf):
        this_host.settings("/etc/sriov_rt/sriov-rt.conf")


SECOND_ENDPOINT = ("onload", "second_endpoint")
EVERY_VIF = {("vif", each.dest) for each in vif_settings.options.VIF_OPTS}
EVERY_ONLOAD = {
    ("onload", each.dest) for each in onload_settings.options.ONLOAD_OPTS
}

Named = tuple[str, str]


def named(listing: opts.Listing) -> set[Named]:
    """Return the options of a listing, by group and name."""
    return {
        (group or "DEFAULT", opt.dest)
        for group, found in listing
        for opt in found
        if group not in NOT_OURS
    }


#: Each service, its check at the start, and the options that it reads.
SERVICES: tuple[
    tuple[str, Callable[[cfg.ConfigOpts], None], set[Named]], ...
] = (
    (
        "sriov-rt-agent",
        check_agent,
        {
            each
            for each in named(opts.list_opts())
            if each[0] not in ("nic", "devices")
        },
    ),
    (
        "sriov-rt-vfs",
        lambda conf: provision.check(conf, provision.SERVICE) and None,
        {each for each in named(opts.list_opts()) if each[0] == "nic"},
    ),
    (
        devices.SERVICE,
        lambda conf: devices.check(conf, devices.SERVICE) and None,
        {each for each in named(opts.list_opts()) if each[0] == "devices"},
    ),
    (
        "nova-scheduler",
        scheduler_options.check,
        {
            SECOND_ENDPOINT,
            *(
                ("sriov_rt", each.dest)
                for each in scheduler_options.SCHEDULER_OPTS
            ),
        },
    ),
    (
        "nova-compute",
        check_compute,
        {
            ("sriov_rt", "unfit_host"),
            ("os_vif_sriov_rt", "answer_timeout"),
            ("os_vif_sriov_rt", "config_file"),
        },
    ),
    ("nova-compute", check_compute_onload, EVERY_ONLOAD),
    (
        "nova-compute",
        lambda conf: vif_host.check(conf, "nova-compute"),
        EVERY_VIF | {SECOND_ENDPOINT},
    ),
    (
        "neutron-server",
        neutron_options.register_ml2,
        {each for each in named(opts.list_neutron_opts()) if "ml2" in each[0]},
    ),
    (
        "neutron-sriov-nic-agent",
        check_extension,
        {
            each
            for each in named(opts.list_neutron_opts())
            if each[0] == neutron_options.EXTENSION_GROUP
        },
    ),
    (
        "sriov-rt-neutron-agent",
        check_neutron_agent,
        {
            each
            for each in named(opts.list_neutron_opts())
            if each[0] == neutron_options.AGENT_GROUP
        },
    ),
    (
        "sriov-rt-neutron-agent",
        check_neutron_parents,
        EVERY_VIF | {SECOND_ENDPOINT},
    ),
)


def every() -> set[Named]:
    """Return every option of sriov-rt."""
    return named(
        [
            *opts.list_opts(),
            *opts.list_nova_opts(),
            *opts.list_neutron_opts(),
        ]
    )


class OptionsTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name, "service.conf")

    def conf(self, group, option, value):
        """Return a configuration with one option."""
        self.path.write_text(f"[{group}]\n{option} = {value}\n")
        conf = config.load([self.path])
        agent_options.register(conf)
        return conf

    def bad(self) -> Iterator[tuple[Named, str]]:
        for each in sorted(every()):
            if each not in FREE_FORM:
                yield each, BAD.get(each, NONSENSE)

    def test_each_option_is_read_by_a_service(self):
        read = set().union(*(names for _, _, names in SERVICES))
        self.assertEqual(set(), every() - read)

    def test_what_is_listed_here_is_an_option(self):
        self.assertEqual(set(), (BAD.keys() | FREE_FORM.keys()) - every())
        self.assertEqual(set(), BAD.keys() & FREE_FORM.keys())

    def test_a_bad_value_is_refused_as_its_service_starts(self):
        for service, check, names in SERVICES:
            for (group, option), value in self.bad():
                if (group, option) not in names:
                    continue
                with self.subTest(service, group=group, option=option):
                    conf = self.conf(group, option, value)
                    with self.assertRaises(config.OptionRejected) as caught:
                        check(conf)
                    said = str(caught.exception)
                    self.assertIn(f"[{group}] {option} = ", said)
                    # For a list, the invalid item.
                    self.assertRegex(
                        said, f" = ({value}|{value.rpartition(',')[2]}) in "
                    )
                    self.assertIn(f" in {self.path} is rejected (", said)
                    self.assertTrue(
                        said.endswith(f"correct it and start {service} again")
                    )

    def test_no_option_has_a_default_that_is_refused(self):
        for service, check, _ in SERVICES:
            with self.subTest(service):
                check(self.conf("other", "option", "1"))

    def test_optional_files_may_be_empty(self):
        for option in ("kubeconfig", "token_file", "ca_file", "node_name"):
            with self.subTest(option):
                conf = self.conf("kubernetes", option, "")
                kubernetes_options.check(conf, "sriov-rt-agent")

    def test_what_can_be_a_secret_is_one(self):
        """oslo.config logs the others, and error messages quote them."""
        names = re.compile("url|password|secret|token$|credential")
        listings = (
            opts.list_opts(),
            opts.list_nova_opts(),
            opts.list_neutron_opts(),
            opts.list_magnum_opts(),
        )
        found = {
            (group, each.dest): each.secret
            for listing in listings
            for group, listed in listing
            for each in listed
            if group not in NOT_OURS and names.search(each.dest)
        }
        self.assertIn(("sriov_rt", "transport_url"), found)
        self.assertEqual({True}, set(found.values()), found)

    def test_a_secret_is_not_shown(self):
        opt = cfg.IntOpt("pin", secret=True)
        self.path.write_text("[other]\npin = hunter2\n")
        conf = config.load([self.path])
        conf.register_opt(opt, group="other")
        with self.assertRaises(config.OptionRejected) as caught:
            config.check(conf, (("other", [opt]),), "sriov-rt-agent")
        self.assertNotIn("hunter2", str(caught.exception))
        self.assertIn(f"in {self.path} is rejected", str(caught.exception))
