# SPDX-License-Identifier: Apache-2.0

"""The installation page, followed on a host with systemd and RabbitMQ.

Its commands are run as they are printed, in their order, up to the boot of a
server, which tests/cloud has. A directory of wheels is the package index, and
nova-compute is a unit that sleeps.
"""

import configparser
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator

from tests import releases
from tests.functional.systemd.container import INSTALLED
from tests.functional.systemd.container import PATIENCE
from tests.functional.systemd.container import Container
from tests.periodic import periodic
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.waiting import run
from tests.testbed.waiting import wait_for

PAGE = paths.CHECKOUT / "doc/source/install/index.rst"

_BLOCK = re.compile(
    r"^\.\. code-block:: (\w+)\n\n((?: {3}.*\n|\n)+)", re.MULTILINE
)

#: Where the container has the wheels, and its Nova environment.
_WHEELS = "/opt/wheels"
_PYTHON = "/opt/nova/bin/python3"

_NOVA_COMPUTE = "[Service]\nExecStart=/bin/sleep infinity\n"

_RABBITMQ = "/usr/lib/rabbitmq/bin"


def blocks(kind: str) -> Iterator[str]:
    """Yield the page's blocks of a kind, such as ``bash``."""
    for found, text in _BLOCK.findall(PAGE.read_text()):
        if found == kind:
            yield re.sub(r"(?m)^ {3}", "", text).strip() + "\n"


def block(words: str, kind: str = "bash") -> str:
    """Return the page's one block that has these words."""
    (found,) = (each for each in blocks(kind) if words in each)
    return found


class Broker:
    """A RabbitMQ in the container's network namespace.

    :param host: the container.
    :param directory: for its files.
    """

    def __init__(self, host: Container, directory: pathlib.Path) -> None:
        packages.install(("rabbitmq-server",), directory / "apt.log")
        self._enter = ("nsenter", f"--net=/proc/{host.pid}/ns/net")
        self._log = directory / "rabbitmq.log"
        (directory / "enabled_plugins").write_text("[].\n")
        self._environment = {
            **os.environ,
            "HOME": str(directory),
            "RABBITMQ_NODENAME": "install@localhost",
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_CONFIG_FILE": str(directory / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(
                directory / "enabled_plugins"
            ),
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                (*self._enter, f"{_RABBITMQ}/rabbitmq-server"),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(
            "RabbitMQ answers",
            lambda: self.run(f"{_RABBITMQ}/rabbitmqctl await_startup") == 0,
            timeout=PATIENCE,
            interval=2.0,
        )

    def run(self, script: str) -> int:
        """Run a script beside it; return the exit code."""
        path = f"{_RABBITMQ}:{os.environ['PATH']}"
        with self._log.open("ab") as log:
            return subprocess.run(
                (*self._enter, "bash", "-ec", script),
                env={**self._environment, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE,
                check=False,
            ).returncode

    def stop(self) -> None:
        """End it, with the port mapper that it has started."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.run("epmd -kill")


@periodic
class InstallTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        """Have a host, an index of packages and a broker."""
        super().setUp()
        if os.geteuid() != 0:
            raise unittest.SkipTest("containers are made by root")
        self.directory = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.host = self.enterContext(Container(self.directory))
        for name in ("sriov-rt", "sriov-rt-agent", "sriov-rt-neutron-agent"):
            (self.host.root / "usr/bin" / name).unlink()
        for each in (self.host.root / INSTALLED[1:]).glob("sriov-rt*"):
            each.unlink()
        # The agent takes the host's name from there.
        self.host.write("/etc/nova/nova.conf", "[DEFAULT]\nhost = compute-7\n")
        self.host.write(
            "/etc/systemd/system/nova-compute.service", _NOVA_COMPUTE
        )
        self.host.write(
            "/etc/hosts", "127.0.0.1 localhost rabbit.example.org\n"
        )
        self.host.write("/root/upper-constraints.txt", self.pins.read_text())
        self.host.write(
            "/etc/pip.conf", f"[global]\nno-index = yes\nfind-links={_WHEELS}"
        )
        self.definitions = [f"python={_PYTHON}\n"]

    @property
    def pins(self) -> pathlib.Path:
        """The upper constraints."""
        return releases.NEWEST.pins

    def index(self) -> None:
        """Make the index: sriov-rt and what it requires."""
        wheels = self.host.root / _WHEELS.lstrip("/")
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet")
        run(
            (
                *(*pip, "-w", str(wheels), "-c", str(self.pins)),
                str(releases.wheel()),
            ),
            timeout=1800,
        )

    def does(self, script: str) -> str:
        """Run a script in the host as root; return what it printed."""
        defined = "".join(self.definitions)
        done = self.host.run("bash", "-ec", f"cd /root\n{defined}\n{script}")
        self.assertEqual(
            0, done.returncode, f"{script}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def configure(self) -> None:
        """Set the options that the page says to set."""
        path = self.host.root / "etc/sriov_rt/sriov-rt.conf"
        config = configparser.RawConfigParser(strict=False)
        config.read_string(block("auth_type", "ini"))
        text = path.read_text()
        for section in ("DEFAULT", *config.sections()):
            lines = "".join(
                f"{name} = {value}\n"
                for name, value in config[section].items()
                if section == "DEFAULT" or name not in config["DEFAULT"]
            )
            self.assertEqual(1, text.count(f"[{section}]\n"), section)
            text = text.replace(f"[{section}]\n", f"[{section}]\n{lines}")
        path.write_text(text)

    def test_each_command_does_what_the_page_says(self) -> None:
        self.index()
        broker = Broker(self.host, self.directory)
        self.addCleanup(broker.stop)
        self.assertEqual(0, broker.run(block("rabbitmqctl")))
        self.does("/opt/python/bin/python3 -m venv /opt/nova")
        self.does(block("upper-constraints.txt sriov-rt\n"))
        self.definitions.append(block("share="))
        self.does(block("sriov-rt.conf.sample"))
        self.configure()
        self.does(block("sriov-rt-agent.service \\"))
        check = self.host.run("/opt/nova/bin/sriov-rt", "host", "check")
        # A container is no realtime host: it says what is missing.
        self.assertEqual(1, check.returncode, check.stderr)
        self.assertIn("isolcpus", check.stdout)
        self.does(block("enable --now"))
        shown = self.does(block("systemctl status"))
        self.assertIn("active (running)", shown)
        self.assertNotIn("Traceback", shown)
        wait_for(
            "the host is listed",
            lambda: "compute-7" in self.does(block("agent list")),
            timeout=PATIENCE,
            interval=1.0,
        )
        listed = json.loads(self.does("$bin/sriov-rt agent list --json"))
        self.assertEqual(["compute-7"], [each["host"] for each in listed])
        explained = self.host.run(
            "bash", "-c", "".join((*self.definitions, block("explain")))
        )
        self.assertIn("compute-7", explained.stdout)
        self.assertIn("isolcpus", explained.stdout)
        self.assertEqual(
            "enabled", self.does("systemctl is-enabled sriov-rt-agent").strip()
        )
