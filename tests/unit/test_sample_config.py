# SPDX-License-Identifier: Apache-2.0

"""The sample configuration is what the current options generate."""

import io
import pathlib
import unittest
from collections.abc import Callable
from collections.abc import Mapping
from unittest import mock

from oslo_config import cfg
from oslo_config import generator

from sriov_rt import opts

ROOT = pathlib.Path(__file__).resolve().parents[2]
ETC = ROOT / "etc/sriov_rt"

#: Each sample with the namespace of its options, and one of their groups.
SAMPLES = (
    ("sriov-rt.conf.sample", "sriov_rt", opts.list_opts, "[vif]"),
    ("nova.conf.sample", "sriov_rt.nova", opts.list_nova_opts, "[sriov_rt]"),
    (
        "neutron.conf.sample",
        "sriov_rt.neutron",
        opts.list_neutron_opts,
        "[sriov_rt_agent]",
    ),
)


def _blocks(text: str) -> Mapping[str, set[str]]:
    """Return the blocks of options, each with its help, by group."""
    found: dict[str, set[str]] = {}
    group = ""
    for block in text.split("\n\n"):
        block = block.strip("\n")
        if block.startswith("["):
            group, _, block = block.partition("\n")
        if block.strip("\n"):
            found.setdefault(group, set()).add(block.strip("\n"))
    return found


def _generated(namespace: str, listing: Callable[[], opts.Listing]) -> str:
    conf, written = cfg.ConfigOpts(), io.StringIO()
    generator.register_cli_opts(conf)
    conf(["--namespace", namespace, "--wrap-width", "79"])
    # By hand, since the tests run on a source tree without entry points.
    with mock.patch.object(
        generator,
        "_get_raw_opts_loaders",
        return_value=[(namespace, listing)],
    ):
        generator.generate(conf, written)
    return written.getvalue()


class SampleTest(unittest.TestCase):
    def test_each_option_stands_in_it_as_in_the_code(self):
        for name, namespace, listing, group in SAMPLES:
            sample = _blocks((ETC / name).read_text())
            generated = _blocks(_generated(namespace, listing))
            self.assertIn(group, generated)
            for group, blocks in generated.items():
                with self.subTest(name, group=group):
                    lacking = sorted(blocks - sample.get(group, set()))
                    self.assertEqual([], lacking, "run tox -e genconfig")

    def test_each_sample_is_generated_by_tox(self):
        tox = (ROOT / "tox.ini").read_text()
        found = {}
        for path in ETC.glob("*config-generator.conf"):
            self.assertIn(f"/etc/sriov_rt/{path.name}\n", tox)
            lines = dict(
                line.split(" = ", 1)
                for line in path.read_text().splitlines()
                if line.startswith(("output_file", "namespace = sriov_rt"))
            )
            name = lines["output_file"].removeprefix("etc/sriov_rt/")
            found[name] = lines["namespace"]
        self.assertEqual({each[0]: each[1] for each in SAMPLES}, found)
