# SPDX-License-Identifier: Apache-2.0

"""The agent's image and its DaemonSet have the privileges of its unit."""

import configparser
import pathlib
import re
import tempfile
import unittest

import yaml
from oslo_config import cfg

from sriov_rt.agent import options

ETC = pathlib.Path(__file__).resolve().parents[3] / "etc"

_DROPPED = {"drop": ["ALL"]}


class AgentPodTest(unittest.TestCase):
    def setUp(self):
        text = (ETC / "kubernetes/agent.yaml").read_text()
        self.secret, daemons = filter(None, yaml.safe_load_all(text))
        self.pod = daemons["spec"]["template"]["spec"]
        (self.agent,) = self.pod["containers"]
        self.context = self.agent["securityContext"]
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read(ETC / "systemd/sriov-rt-agent.service")
        self.capabilities = set(
            unit["Service"]["CapabilityBoundingSet"].split()
        )
        self.image = (ETC / "container/Containerfile").read_text()

    def test_it_has_the_capabilities_of_the_unit(self):
        added = self.context["capabilities"].pop("add")
        self.assertEqual(_DROPPED, self.context["capabilities"])
        self.assertEqual(self.capabilities, {f"CAP_{name}" for name in added})
        (given,) = re.findall(r"setcap (\S+)\+ep", self.image)
        self.assertEqual(self.capabilities, set(given.upper().split(",")))

    def test_it_is_not_root(self):
        (user,) = re.findall(r"(?m)^USER (\d+):\1$", self.image)
        self.assertNotEqual("0", user)
        pod = self.pod["securityContext"]
        self.assertTrue(pod["runAsNonRoot"])
        self.assertEqual(int(user), pod["runAsUser"])
        self.assertNotIn("runAsUser", self.context)

    def test_it_writes_its_state_alone(self):
        self.assertTrue(self.context["readOnlyRootFilesystem"])
        written = {
            each["name"]
            for each in self.agent["volumeMounts"]
            if not each.get("readOnly")
        }
        self.assertEqual({"state", "tmp"}, written)

    def test_its_configuration_is_taken(self):
        conf = cfg.ConfigOpts()
        options.register(conf)
        text = self.secret["stringData"]["sriov-rt.conf"]
        path = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()), "sriov-rt.conf"
        )
        path.write_text(text)
        conf(["--config-file", str(path)])
        mounts = {
            e["name"]: e["mountPath"] for e in self.agent["volumeMounts"]
        }
        self.assertEqual(mounts["host"], conf.agent.root)
