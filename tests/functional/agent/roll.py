# SPDX-License-Identifier: Apache-2.0

"""A kernel that is rolled over three hosts, as the operator's screen has it.

Run as root: ``python -m tests.functional.agent.roll FILE``; FILE gets each
command with what it printed, as JSON. RabbitMQ, the agents and the commands
are real processes, and the agents have their unit's user and capabilities. A
host is a tree of files, whose kernel and certificate are written there. It has
network, mount and PID namespaces of its own.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from sriov_rt.facts import certificate
from sriov_rt.host import compute_driver_socket
from sriov_rt.verify import certificate as issued
from tests.benchmarks.scale import broker
from tests.testbed import paths
from tests.testbed import settings
from tests.testbed.waiting import wait_for
from tests.unit.host import trees
from tests.unit.tuning import fakes

#: Set where the namespaces are ours.
_INSIDE = "SRIOV_RT_ROLL_INSIDE"

HOSTS = ("rt-1", "rt-2", "rt-3")
KERNEL = "6.12.9+bpo-rt-amd64"

#: As the agent's unit has them.
_UNIT = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    "--inh-caps=-all,+sys_ptrace,+dac_read_search",
    "--ambient-caps=-all,+sys_ptrace,+dac_read_search",
    "--bounding-set=-all,+sys_ptrace,+dac_read_search",
    "--no-new-privs",
)
_AGENT = f"""\
[DEFAULT]
host = {{host}}
transport_url = {settings.TRANSPORT_URL}
[agent]
root = {{root}}
observe_interval = 1
heartbeat_interval = 5
publish_traits = false
[labels]
store =
"""

#: Of the list, those that a roll changes.
COLUMNS = ("host", "differs", "kernel", "expires", "hold", "boot owed")

#: Writes grub.cfg by the variables of /etc/default, as grub-mkconfig does.
_UPDATE_GRUB = """#!/bin/busybox sh
set -e
. /etc/default/grub
for each in /etc/default/grub.d/*.cfg; do
[ ! -e "$each" ] || . "$each"
done
echo "linux /vmlinuz ro $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT" \
> /boot/grub/grub.cfg
"""

PATIENCE_S = 180.0


class Roll:
    """Three hosts, and the screen of their operator.

    :param place: a directory for the hosts.
    :ivar screen: each command, and what it printed.
    """

    def __init__(self, place: pathlib.Path) -> None:
        self._place = place
        self._trees = {host: self._host(host) for host in HOSTS}
        self.screen: list[tuple[str, str]] = []

    def _host(self, name: str) -> trees.Tree:
        path = self._place / name
        path.mkdir(mode=0o755)
        tree = trees.realtime_host(path)
        fakes.grub(tree)
        tree.write("proc/sys/kernel/random/boot_id", f"{name}-1\n")
        tree.write("usr/sbin/update-grub", _UPDATE_GRUB)
        (path / "usr/sbin/update-grub").chmod(0o755)
        tree.write("bin/busybox")
        shutil.copy(shutil.which("busybox") or "", path / "bin/busybox")
        for relative in (
            "etc/nova/nova.conf",
            "proc/1/net/unix",
            "proc/sys/kernel/hostname",
        ):
            file = path / relative
            socket = compute_driver_socket.prefix
            text = file.read_text().replace(socket("rt-1"), socket(name))
            text = text.replace("host = rt-1", f"host = {name}")
            file.write_text(text.replace("compute-7", name))
        self.measure(tree, trees.RELEASE)
        state = path / "var/lib/sriov-rt"
        state.mkdir(exist_ok=True)
        os.chown(state, 65534, 65534)
        return tree

    def measure(self, tree: trees.Tree, kernel: str) -> None:
        """Give a host a certificate of today."""

        def text(relative: str) -> str:
            return " ".join((tree.path / relative).read_text().split())

        now = time.time()
        found = dataclasses.replace(
            trees.CERTIFICATE,
            kernel=kernel,
            issued_at=now,
            expires_at=now + issued.VALIDITY_S,
            conditions={
                **trees.CONDITIONS,
                "kernel release": kernel,
                "kernel command line": text("proc/cmdline"),
                "host name": text("proc/sys/kernel/hostname"),
            },
        )
        tree.write(certificate.PATH, certificate.to_bytes(found))

    def start(self, host: str) -> None:
        """Start a host's agent."""
        tree = self._trees[host]
        path = self._place / f"{host}.conf"
        path.write_text(_AGENT.format(host=host, root=tree.path))
        with (self._place / f"{host}.log").open("wb") as log:
            subprocess.Popen(
                (
                    *(*_UNIT, sys.executable, "-m", "sriov_rt.cmd.agent"),
                    *("--config-file", path),
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=paths.CHECKOUT,
            )

    def run(self, host: str, *words: str) -> None:
        """Run a command on a host, and put it on the screen."""
        tree = self._trees[host]
        # The commands of a hold know no other root.
        script = 'mount --bind "$0" /var/lib/sriov-rt-verify && exec "$@"'
        root = ("--root", tree.path) if words[1] in ("apply", "check") else ()
        done = subprocess.run(
            (
                *("unshare", "--mount", "sh", "-c", script),
                tree.path / "var/lib/sriov-rt-verify",
                *(sys.executable, "-m", "sriov_rt.cmd.main", *words, *root),
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "SUDO_USER": "", "LOGNAME": "root"},
        )
        shown = " ".join(f"'{x}'" if " " in x else x for x in words)
        self.screen.append((f"[{host}] # sriov-rt {shown}", done.stdout))
        if done.returncode not in (0, 1):
            raise AssertionError(f"{shown}: {done.stderr}")

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return what maintenance changes on each host."""
        return {
            each["host"]: each["maintenance"]
            for each in json.loads(self._list("--json"))
        }

    def _list(self, *more: str) -> str:
        done = subprocess.run(
            (
                *(sys.executable, "-m", "sriov_rt.cmd.main", "agent", "list"),
                *("--long", "--transport-url", settings.TRANSPORT_URL),
                *(x for host in HOSTS for x in ("--host", host)),
                *("--wait", "60", *more),
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def show(
        self, awaited: Callable[[dict[str, dict[str, Any]]], object]
    ) -> None:
        """Put the list on the screen, once it says what is awaited."""

        def says() -> bool:
            found = self.listed()
            return all(found.values()) and bool(awaited(found))

        wait_for("the agents report", says, timeout=PATIENCE_S, interval=1.0)
        chosen = tuple(x for name in COLUMNS for x in ("-c", name))
        shown = "openstack realtime host list --long"
        self.screen.append((f"$ {shown}", self._list(*chosen)))

    def boot(self, host: str, kernel: str) -> None:
        """Have a host come up with a kernel, and what GRUB has for it."""
        tree = self._trees[host]
        line = (tree.path / "boot/grub/grub.cfg").read_text()
        words = line.partition(" ro ")[2].split()
        tree.write("proc/cmdline", f"BOOT_IMAGE=/vmlinuz {' '.join(words)}\n")
        tree.write("proc/sys/kernel/osrelease", f"{kernel}\n")
        tree.write("proc/sys/kernel/random/boot_id", f"{host}-2\n")
        tree.write(fakes.THP, "always madvise [never]\n")
        tree.write("proc/irq/26/smp_affinity_list", f"{trees.HOUSEKEEPING}\n")
        tree.write("proc/irq/26/effective_affinity_list", "0\n")
        modules = tree.path / "lib/modules"
        (modules / trees.RELEASE).rename(modules / kernel)
        # It ends with the boot.
        shutil.rmtree(tree.path / "run/sriov-rt", ignore_errors=True)

    def roll(self, host: str) -> None:
        """Roll the kernel on a host: hold, change, boot, measure, release."""
        self.run(host, "host", "hold", "--why", "kernel 6.12")
        self.run(host, "host", "apply", "--persist")
        self.show(
            lambda x: (
                x[host]["hold"]
                and x[host]["boot_owed"] == "kernel command line"
            )
        )
        self.boot(host, KERNEL)
        self.show(lambda x: x[host]["certificate"] == "withdrawn")
        self.measure(self._trees[host], KERNEL)
        self.run(host, "host", "release")
        self.show(
            lambda x: (
                x[host]["certificate"] == "counts" and not x[host]["hold"]
            )
        )


def run(place: pathlib.Path) -> list[tuple[str, str]]:
    """Return the screen of a roll over three hosts.

    :param place: a directory for the broker and the hosts.
    """
    queue = broker.Broker(place / "broker")
    queue.start()
    roll = Roll(place)
    for host in HOSTS:
        roll.start(host)
    try:
        roll.show(lambda _: True)
        for host in HOSTS:
            roll.roll(host)
    finally:
        for host in HOSTS:
            print((place / f"{host}.log").read_text()[-4000:])
    return roll.screen


def main() -> int:
    """Run it; the exit code is returned."""
    (output,) = sys.argv[1:]
    if _INSIDE not in os.environ:
        os.execvpe(
            "unshare",
            (
                *("unshare", "--net", "--mount", "--pid", "--fork"),
                *("--kill-child", "--mount-proc"),
                *(sys.executable, "-m", __spec__.name, output),
            ),
            {**os.environ, _INSIDE: "1"},
        )
    broker.lay_network()
    pathlib.Path("/var/lib/sriov-rt-verify").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        place = pathlib.Path(directory)
        place.chmod(0o755)
        (place / "broker").mkdir()
        found = run(place)
    pathlib.Path(output).write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
