# SPDX-License-Identifier: Apache-2.0

"""Debian's packages: built, judged by lintian, installed, upgraded, purged.

On a Debian whose OpenStack is one that is supported, beside its RabbitMQ,
libvirt, Placement, nova-conductor and nova-compute; there is no Keystone.
"""

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
from typing import Any

from tests.packages import debian
from tests.packages import sources
from tests.periodic import periodic
from tests.testbed import debian_tree
from tests.testbed import paths
from tests.testbed.waiting import wait_for

#: What is on the compute host before sriov-rt is.
_HOST = (
    *("systemd", "systemd-sysv", "dbus", "iproute2", "rabbitmq-server"),
    *("libvirt-daemon-system", "nova-compute", "nova-compute-kvm"),
    *("nova-conductor", "neutron-common", "python3-placement"),
)

#: Seconds until a service has done what it does after its start.
READY = 180.0

_QUEUE = "rabbit://guest:guest@127.0.0.1:5672/"

#: Without a Keystone Placement takes this token for an administrator's.
_PLACEMENT = """[placement]
auth_type = admin_token
endpoint = http://127.0.0.1:8778
token = admin
"""

_PLACEMENT_API = """[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:////var/lib/nova/placement.sqlite
sync_on_startup = true
"""

_PLACEMENT_UNIT = """[Service]
User=nova
ExecStart=/usr/bin/python3 -c '\\
from wsgiref import simple_server; \\
from placement.wsgi.api import application; \\
simple_server.make_server("127.0.0.1", 8778, application).serve_forever()'
"""

_NOVA = f"""[DEFAULT]
host = rt-1
transport_url = {_QUEUE}
compute_driver = sriov_rt.RealtimeLibvirtDriver
state_path = /var/lib/nova
graceful_shutdown_timeout = 5
log_dir = /var/log/nova
[database]
connection = sqlite:////var/lib/nova/cell.sqlite
[api_database]
connection = sqlite:////var/lib/nova/api.sqlite
[libvirt]
virt_type = qemu
[oslo_concurrency]
lock_path = /var/lib/nova/tmp
{_PLACEMENT}"""

_NEUTRON = f"""[DEFAULT]
host = rt-1
transport_url = {_QUEUE}
"""

_CONFIGURED = f"""[DEFAULT]
host = rt-1
transport_url = {_QUEUE}
{_PLACEMENT}"""

_CELL = """
set -e
install -d -o nova -g nova /var/lib/nova/tmp
su -s /bin/sh nova -c 'nova-manage api_db sync'
su -s /bin/sh nova -c 'nova-manage db sync --local_cell'
"""

_CONF = "/etc/sriov_rt/sriov-rt.conf"
_AGENTS = ("sriov-rt-agent", "sriov-rt-neutron-agent")

#: Waits until the Neutron agent has the last of its queues.
_LISTENED = """
until rabbitmqctl -q list_queues name | grep -q binding-deactivate; do
    sleep 1
done
"""

#: Where something of ours may be.
_PLACES = ("etc", "usr", "var", "opt", "run", "root", "home", "srv")
_NAMES = ("*sriov-rt*", "*sriov_rt*")
#: What is no file of ours there: what apt, dpkg and the journal remember.
_OTHERS = ("var/lib/dpkg", "var/lib/apt", "var/log", "var/cache")


@dataclasses.dataclass(frozen=True)
class _Built:
    """The packages of this state.

    :param directory: has them in ``new``; it goes with the tests.
    :param packages: their files by name.
    """

    builder: debian.Builder
    directory: pathlib.Path
    packages: dict[str, pathlib.Path]


@functools.cache
def _built() -> _Built:
    """Build the packages of this state, once for all tests."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("containers are made by root")
    directory = pathlib.Path(
        unittest.enterModuleContext(
            tempfile.TemporaryDirectory(dir="/var/tmp")
        )
    )
    control = (paths.CHECKOUT / "debian/control").read_text()
    builder = debian.Builder.make(control, directory / "build.log")
    source = directory / "new/sriov-rt"
    sources.copy(source)
    found = sources.versions()["version"](paths.CHECKOUT)
    sources.versions()["set_changelog"](source, found)
    return _Built(builder, directory, builder.build(source))


class BuildTest(unittest.TestCase):
    """In the gate, too: a change may forget what debian/ lists."""

    def test_lintian_finds_nothing(self) -> None:
        built = _built()
        self.assertEqual(set(debian.PACKAGES), set(built.packages))
        built.builder.lint(built.directory / "new")

    def test_it_breaks_an_older_nova_by_debians_epoch(self) -> None:
        library = _built().packages["python3-sriov-rt"]
        command = ("dpkg-deb", "--field", str(library), "Breaks")
        done = subprocess.run(command, capture_output=True, check=True)
        self.assertIn(b"python3-nova (<< 2:32~)", done.stdout)


@periodic
class InstallTest(unittest.TestCase):
    maxDiff = None

    def test_an_agent_needs_no_nova_and_a_scheduler_no_agent(self) -> None:
        built = _built()
        root = built.directory / "apart"
        debian_tree.copy(built.builder.root, root)
        log = built.directory / "apart.log"

        def does(script: str) -> str:
            log.unlink(missing_ok=True)
            debian_tree.run_in(
                root,
                ("sh", "-ec", script),
                binds={built.directory / "new": "/build"},
                log=log,
            )
            return log.read_text()

        library = f"/build/{built.packages['python3-sriov-rt'].name}"
        does(f"apt-get -q update; apt-get -q -y install {library}")
        installed = does("dpkg-query -W -f '${Package}\\n'").split()
        self.assertNotIn("sriov-rt-common", installed)
        does("python3 -c 'import sriov_rt.scheduler.worker'")
        others = " ".join(
            f"/build/{built.packages[name].name}"
            for name in ("sriov-rt-common", "sriov-rt-agent")
        )
        does(f"apt-get -q -y install {others}")
        installed = does("dpkg-query -W -f '${Package}\\n'").split()
        for name in ("python3-nova", "nova-common", "python3-neutron"):
            self.assertNotIn(name, installed)
        does("sriov-rt-agent --version; sriov-rt --version")
        facts = does("sriov-rt host show --json")
        # systemd-nspawn may add a line of its own.
        found, _ = json.JSONDecoder().raw_decode(facts[facts.index("{") :])
        self.assertIn("cpus", found)

    def test_install_upgrade_and_purge_beside_nova_compute(self) -> None:
        commit = sources.previous()
        built = _built()
        source = built.directory / "old/sriov-rt"
        sources.extract(commit, source)
        earlier = sources.version(commit, built.directory)
        sources.versions()["set_changelog"](source, earlier)
        old = built.builder.build(source)
        log = built.directory / "host.log"
        tree = debian_tree.make(debian.SUITE, _HOST, log)
        host = self.enterContext(_Host(tree, built.directory / "host"))
        host.serve_nova()
        before = host.files()
        host.install(old)
        host.write(_CONF, _CONFIGURED, 0o640)
        host.does(f"chgrp sriov-rt {_CONF}")
        host.does("systemctl restart nova-compute sriov-rt-agent")
        self.assertEqual(earlier, host.agent()["version"])
        host.install(built.packages)
        host.does("systemctl restart nova-compute")
        self.assertEqual(_CONFIGURED, host.does(f"cat {_CONF}"))
        version = host.does("sriov-rt --version").split()[-1]
        for unit in _AGENTS:
            with self.subTest(unit):
                self.assertEqual("active", host.property(unit, "ActiveState"))
                self.assertEqual("0", host.property(unit, "NRestarts"))
        agent = host.agent(version)
        # A container is no realtime host; it is told so in sentences.
        self.assertEqual("not ready", agent["verdict"])
        codes = {each["code"] for each in agent["reasons"]}
        self.assertIn("nothing_isolated", codes)
        # Its nova-compute runs with the driver.
        self.assertNotIn("compute_driver_missing", codes)
        self.assertIn("sriov-rt", host.does("id -nG nova").split())
        host.checks_an_upgrade(self)
        self._stops_without_its_broker(host)
        self._leaves_the_timer_to_the_operator(host)
        # It leaves a lock in /var/lib/sriov-rt-tuning.
        host.does("sriov-rt host apply --undo")
        host.does("apt-get -q -y purge 'sriov-rt*' 'python3-sriov-rt'")
        self.assertEqual(
            "active", host.property("rabbitmq-server", "ActiveState")
        )
        self.assertEqual([], sorted(host.files() - before))
        self.assertNotIn("sriov-rt", host.does("getent passwd; getent group"))
        self.assertEqual("", host.does("systemctl list-units -q 'sriov-rt*'"))

    def _stops_without_its_broker(self, host: "_Host") -> None:
        host.does(_LISTENED)
        host.does("systemctl stop rabbitmq-server")
        for unit in _AGENTS:
            with self.subTest(unit):
                host.does(f"systemctl stop {unit}")
                self.assertEqual("success", host.property(unit, "Result"))
        host.does("systemctl start rabbitmq-server")
        host.does(f"systemctl start {' '.join(_AGENTS)}")

    def _leaves_the_timer_to_the_operator(self, host: "_Host") -> None:
        timer = "sriov-rt-devices.timer"
        self.assertEqual("disabled", host.property(timer, "UnitFileState"))
        # The purge takes it away again.
        host.does(f"systemctl enable --now {timer}")
        self.assertEqual("active", host.property(timer, "ActiveState"))


class _Host(debian_tree.Container):
    """A compute host."""

    def __init__(self, tree: pathlib.Path, directory: pathlib.Path) -> None:
        directory.mkdir()
        super().__init__(tree, directory)

    def prepare(self) -> None:
        """Configure Nova and Neutron."""
        # They wait for a database until it is made.
        wants = self.root / "etc/systemd/system/multi-user.target.wants"
        for each in wants.glob("nova-*"):
            each.unlink()
        self.write("/etc/nova/nova.conf", _NOVA)
        self.write("/etc/nova/nova-compute.conf", "[DEFAULT]\n")
        self.write("/etc/neutron/neutron.conf", _NEUTRON)
        self.write("/etc/placement/placement.conf", _PLACEMENT_API)
        self.write("/etc/systemd/system/placement.service", _PLACEMENT_UNIT)
        self.write("/etc/hosts", "127.0.0.1 localhost rt-1\n")
        self.write("/etc/hostname", "rt-1\n")

    def does(self, script: str) -> str:
        """Run a script as root; return what it printed."""
        done = self.run(
            *("env", "DEBIAN_FRONTEND=noninteractive"),
            *("bash", "-ec", script),
            timeout=600,
        )
        if done.returncode:
            raise AssertionError(f"{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve_nova(self) -> None:
        """Have nova-compute run, with what it needs."""
        self.does("systemctl restart rabbitmq-server")
        self.does(_CELL)
        self.does("systemctl restart placement libvirtd nova-conductor")

    def install(self, built: dict[str, pathlib.Path]) -> None:
        """Install packages that were built."""
        target = self.root / "root/packages"
        target.mkdir()
        for each in built.values():
            shutil.copy(each, target)
        # What they require is there, or in the archive.
        self.does("apt-get -q -y install /root/packages/*.deb")
        shutil.rmtree(target)

    def agent(self, version: str | None = None) -> Any:
        """Wait until the one agent is listed, and return what it says.

        :param version: that it is to have; any if None.
        """
        found: list[Any] = []

        def listed() -> bool:
            found[:] = json.loads(self.does("sriov-rt agent list --json"))
            return [version or each["version"] for each in found] == [
                each["version"] for each in found
            ] and bool(found)

        wait_for(
            "the agent is listed",
            listed,
            timeout=READY,
            interval=2.0,
            unanswered=AssertionError,
        )
        (agent,) = found
        return agent

    def checks_an_upgrade(self, test: unittest.TestCase) -> None:
        """See that nothing but warnings is found, and what they are."""
        done = self.run("sriov-rt-status", "upgrade", "check", "--json")
        test.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        checks = {
            each["check"]: each for each in json.loads(done.stdout)["checks"]
        }
        for name in ("Module in nova.virt", "Compute driver", "Agents"):
            with test.subTest(name):
                test.assertEqual(0, checks[name]["result"], checks[name])

    def files(self) -> set[str]:
        """Return the files that have our name."""
        found = set()
        for place in _PLACES:
            for name in _NAMES:
                for path in (self.root / place).rglob(name):
                    text = str(path.relative_to(self.root))
                    if not text.startswith(_OTHERS):
                        found.add(text)
        return found
