# SPDX-License-Identifier: Apache-2.0

"""The Tempest plugin loads where nothing but Tempest is."""

import ast
import http.server
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import tomllib
import unittest
from collections.abc import Iterator

from oslo_config import cfg

from sriov_rt.request import grammar
from sriov_rt_tempest_plugin import config
from sriov_rt_tempest_plugin import plugin
from tests.periodic import slow

CHECKOUT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = CHECKOUT / "sriov_rt_tempest_plugin"
#: What may be imported: Tempest has it, too.
ALLOWED = {"tempest", "oslo_config", PACKAGE.name} | sys.stdlib_module_names

#: Runs all tests of the plugin without a cloud or a configuration.
_RUN = """\
import sys, unittest
from oslo_config import cfg
from sriov_rt_tempest_plugin import plugin
found = plugin.SriovRtTempestPlugin()
found.register_opts(cfg.CONF)
tests = unittest.defaultTestLoader.discover(*found.load_tests()[:1],
    top_level_dir=found.load_tests()[1])
result = unittest.TestResult()
tests.run(result)
for failed in result.failures + result.errors:
    print(*failed)
for test, reason in result.skipped:
    print(reason)
sys.exit(not result.wasSuccessful())
"""


#: One user, and what "verify-config" reads of a cloud without services.
_ACCOUNTS = """\
- username: demo
  project_name: demo
  password: secret
  domain_name: Default
  roles: [member]
"""
_TEMPEST_CONF = """\
[DEFAULT]
debug = True
log_file = {scratch}/tempest.log
[oslo_concurrency]
lock_path = {scratch}
[auth]
use_dynamic_credentials = False
test_accounts_file = {scratch}/accounts.yaml
[identity]
auth_version = v3
uri_v3 = {keystone}/v3
[service_available]
glance = False
neutron = False
nova = False
swift = False
cinder = False
sriov_rt = True
[sriov_rt]
realtime_hosts = rt-1
"""


class _Keystone(http.server.BaseHTTPRequestHandler):
    """A Keystone that knows everybody, and no service."""

    def do_GET(self) -> None:
        self._answer(300, {"versions": {"values": [{"id": "v3.14"}]}})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(
            201,
            {
                "token": {
                    "catalog": [],
                    "expires_at": "2999-01-01T00:00:00.000000Z",
                    "project": {
                        "id": "p",
                        "name": "demo",
                        "domain": {"id": "default", "name": "Default"},
                    },
                    "user": {
                        "id": "u",
                        "name": "demo",
                        "domain": {"id": "default", "name": "Default"},
                    },
                }
            },
        )

    def _answer(self, status: int, found: object) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("X-Subject-Token", "t")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def modules() -> Iterator[pathlib.Path]:
    """Yield the plugin's modules."""
    return PACKAGE.rglob("*.py")


class TestLoading(unittest.TestCase):
    """What Tempest does with each plugin that is installed."""

    def test_the_entry_point_is_a_plugin(self) -> None:
        project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
        (points,) = [
            project["project"]["entry-points"]["tempest.test_plugins"]
        ]
        found = importlib.metadata.EntryPoint(
            "sriov_rt", points["sriov_rt"], "tempest.test_plugins"
        )
        self.assertIs(plugin.SriovRtTempestPlugin, found.load())

    def test_its_tests_are_there(self) -> None:
        tests, above = plugin.SriovRtTempestPlugin().load_tests()
        self.assertEqual(str(PACKAGE.parent), above)
        self.assertTrue(list(pathlib.Path(tests).rglob("test_*.py")))

    def test_nothing_is_imported_but_tempest(self) -> None:
        for module in modules():
            for node in ast.walk(ast.parse(module.read_text())):
                names = []
                if isinstance(node, ast.Import):
                    names = [each.name for each in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                for name in names:
                    self.assertIn(name.partition(".")[0], ALLOWED, module)

    def test_loading_it_leaves_the_process_as_it_was(self) -> None:
        done = subprocess.run(
            (
                *(sys.executable, "-c"),
                "import sys, threading\n"
                "import tempest.config, tempest.test_discover.plugins\n"
                "before = set(sys.modules)\n"
                "from sriov_rt_tempest_plugin import plugin\n"
                "plugin.SriovRtTempestPlugin().get_opt_lists()\n"
                "print(*sorted(set(sys.modules) - before))\n"
                "assert threading.active_count() == 1\n",
            ),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        )
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(
            {PACKAGE.name, f"{PACKAGE.name}.config", f"{PACKAGE.name}.plugin"},
            set(done.stdout.split()),
        )


@slow
class TestCommands(unittest.TestCase):
    """Tempest's own commands, with the plugin that is installed."""

    def tempest(
        self, *words: str, cwd: pathlib.Path = CHECKOUT, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "tempest.cmd.main", *words),
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), **variables},
        )

    def test_the_plugin_is_listed(self) -> None:
        done = self.tempest("list-plugins")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(
            done.stdout,
            r"\| sriov_rt +\| sriov_rt_tempest_plugin\.plugin:\w+ +\|",
        )

    def test_a_configuration_with_our_options_is_verified(self) -> None:
        keystone = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Keystone)
        self.addCleanup(keystone.server_close)
        threading.Thread(target=keystone.serve_forever, daemon=True).start()
        self.addCleanup(keystone.shutdown)
        with tempfile.TemporaryDirectory() as place:
            scratch = pathlib.Path(place)
            (scratch / "accounts.yaml").write_text(_ACCOUNTS)
            (scratch / "tempest.conf").write_text(
                _TEMPEST_CONF.format(
                    scratch=scratch,
                    keystone=f"http://127.0.0.1:{keystone.server_port}",
                )
            )
            done = self.tempest(
                "verify-config", cwd=scratch, TEMPEST_CONFIG_DIR=place
            )
            log = (scratch / "tempest.log").read_text()
        self.assertEqual(0, done.returncode, done.stderr)
        # What is to be changed, or set by hand: nothing.
        self.assertEqual("", done.stdout)
        # Of a plugin that fails its log alone says so.
        self.assertNotRegex(log, r"\d ERROR \w")
        self.assertRegex(log, r"sriov_rt\.realtime_hosts += \['rt-1'\]")


class TestOptions(unittest.TestCase):
    """Options as ``tempest verify-config`` and samples have them."""

    def test_they_are_registered_beside_those_of_others(self) -> None:
        conf = cfg.ConfigOpts()
        conf.register_opt(cfg.BoolOpt("nova"), group="service_available")
        plugin.SriovRtTempestPlugin().register_opts(conf)
        conf([])
        self.assertIs(False, conf.service_available.sriov_rt)
        self.assertEqual([], conf.sriov_rt.realtime_hosts)
        self.assertIs(False, conf["sriov_rt-feature-enabled"].live_migration)

    def test_all_are_listed_with_help(self) -> None:
        listed = dict(plugin.SriovRtTempestPlugin().get_opt_lists())
        self.assertEqual(
            {"service_available", "sriov_rt", "sriov_rt-feature-enabled"},
            listed.keys(),
        )
        for options in listed.values():
            for option in options:
                self.assertTrue(option.help.endswith("."), option.name)

    def test_each_option_is_read_by_a_test(self) -> None:
        text = "".join(
            each.read_text()
            for each in modules()
            if each.name not in ("config.py", "plugin.py")
        )
        for _, options in config.GROUPS:
            for option in options:
                self.assertIn(option.name, text)


@slow
class TestTests(unittest.TestCase):
    """The tests themselves, without a cloud."""

    def test_each_has_an_id_of_its_own(self) -> None:
        done = subprocess.run(
            (
                *(sys.executable, "-m", "tempest.lib.cmd.check_uuid"),
                *("--package", PACKAGE.name),
            ),
            capture_output=True,
            text=True,
            check=False,
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_each_extra_spec_is_set_by_one(self) -> None:
        text = (PACKAGE / "tests/api/test_extra_specs.py").read_text()
        missing = [key for key in grammar.KEYS if f'"{key}"' not in text]
        self.assertEqual([], missing)

    def test_without_options_all_are_skipped_by_name(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            file = pathlib.Path(scratch, "tempest.conf")
            file.write_text(
                f"[DEFAULT]\nlog_file = {scratch}/tempest.log\n"
                f"[oslo_concurrency]\nlock_path = {scratch}\n"
            )
            done = subprocess.run(
                (sys.executable, "-c", _RUN),
                capture_output=True,
                text=True,
                check=False,
                cwd=scratch,
                env={
                    **os.environ,
                    "PYTHONPATH": str(CHECKOUT),
                    "TEMPEST_CONFIG_DIR": scratch,
                },
            )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        reasons = set(done.stdout.splitlines())
        self.assertEqual(
            {"sriov-rt is not available: [service_available] sriov_rt"},
            reasons,
        )
