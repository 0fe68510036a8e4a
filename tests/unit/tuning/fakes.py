# SPDX-License-Identifier: Apache-2.0

"""A host whose settings can be changed, and that dies where it is told to."""

import re
import stat
import subprocess
from collections.abc import Callable

from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.host import compute
from sriov_rt.host import fix_plan
from sriov_rt.host import readiness
from sriov_rt.host.fix_plan import FixPlan
from sriov_rt.host.observer import Observer
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.tuning import apply
from sriov_rt.tuning import boot
from sriov_rt.tuning import settings
from sriov_rt.tuning.settings import Setting
from tests.testbed import death
from tests.unit.host import trees

THP = "sys/kernel/mm/transparent_hugepage/enabled"
KSM = "sys/kernel/mm/ksm/run"
RUNTIME = "proc/sys/kernel/sched_rt_runtime_us"
GOVERNOR = "sys/devices/system/cpu/cpufreq/policy{}/scaling_governor"
LATENCY = "sys/devices/system/cpu/cpu{}/power/pm_qos_resume_latency_us"
ENTRY = "loader/entries/4f2a-6.1.0-44-rt-amd64.conf"
LINE = "root=/dev/sda1 ro quiet isolcpus=2 nohz=off"

#: What nobody set, as a kernel has it.
ORDINARY = {
    "proc/cmdline": f"BOOT_IMAGE=/vmlinuz {LINE}\n",
    "proc/irq/default_smp_affinity": "ffff\n",
    "proc/sys/kernel/random/boot_id": "boot-1\n",
    RUNTIME: "950000\n",
    "proc/sys/kernel/timer_migration": "1\n",
    "proc/sys/kernel/nmi_watchdog": "1\n",
    "proc/sys/kernel/watchdog_cpumask": "0-15\n",
    "sys/devices/system/cpu/isolated": "\n",
    "sys/devices/system/cpu/nohz_full": "\n",
    "sys/devices/virtual/workqueue/cpumask": "ffff\n",
    KSM: "1\n",
    THP: "[always] madvise never\n",
    GOVERNOR.format(0): "powersave\n",
    GOVERNOR.format(8): "powersave\n",
}

#: As Debian's installer writes it.
_GRUB = """# If you change this file, run 'update-grub' afterwards.
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_CMDLINE_LINUX_DEFAULT="quiet isolcpus=2"
GRUB_CMDLINE_LINUX="nohz=off"
"""

#: What belongs to us, and stays.
_OURS = ("var/lib/sriov-rt-tuning", "run/sriov-rt")


def make_ordinary(tree: trees.Tree) -> None:
    """Make a host one that nobody made realtime, without a boot loader."""
    for relative, text in ORDINARY.items():
        tree.write(relative, text)
    for cpu in range(16):
        tree.write(LATENCY.format(cpu), "0\n")


def debian(tree: trees.Tree, version: int = 12) -> None:
    """Make a host a Debian with GRUB and tuned, as its packages have them."""
    grub(tree)
    tree.write("etc/debian_version", f"{version}.5\n")
    tree.write("usr/bin/kernel-install", "")
    tree.write("usr/sbin/tuned", "")
    profiles = "usr/lib/tuned/profiles" if version > 12 else "usr/lib/tuned"
    tree.write(f"{profiles}/virtual-host/tuned.conf", "[main]\n")
    tree.write("etc/tuned/active_profile", "virtual-host\n")
    tree.write("etc/tuned/profile_mode", "auto\n")


def grub(tree: trees.Tree) -> None:
    """Have a host booted by GRUB, as Debian's packages do it."""
    tree.write("etc/default/grub", _GRUB)
    tree.write("usr/sbin/update-grub", "")
    update_grub(tree)


def fedora(tree: trees.Tree) -> None:
    """Make a host a Fedora, whose kernels have entries of a loader."""
    tree.write("usr/sbin/grubby", "")
    tree.write(f"boot/{ENTRY}", f"title Fedora\noptions {LINE}\n")
    tree.write("etc/kernel/cmdline", f"{LINE}\n")
    tree.write("etc/default/grub", f'GRUB_CMDLINE_LINUX="{LINE}"\n')


def systemd_boot(tree: trees.Tree) -> None:
    """Make a host one that systemd-boot boots."""
    tree.write("usr/bin/kernel-install", "")
    tree.write(f"boot/vmlinuz-{trees.RELEASE}", "kernel")
    tree.write(f"efi/{ENTRY}", f"title Linux\noptions {LINE}\n")


def update_grub(tree: trees.Tree) -> None:
    """Write grub.cfg as grub-mkconfig does: its shell reads both files."""
    script = (
        "set -e; . ./etc/default/grub\n"
        "for x in ./etc/default/grub.d/*.cfg; do\n"
        'if [ -e "$x" ]; then . "$x"; fi; done\n'
        'echo "linux /vmlinuz root=/dev/sda1 ro $GRUB_CMDLINE_LINUX '
        '$GRUB_CMDLINE_LINUX_DEFAULT"\n'
    )
    done = subprocess.run(
        ("sh", "-c", script), cwd=tree.path, check=True, capture_output=True
    )
    tree.write("boot/grub/grub.cfg", done.stdout)


class FakeHost(apply.Host):
    """A host of a tree: a kernel that has its own way to write values.

    :ivar refuses: files that the kernel does not take.
    :ivar deaf: files that keep what they have, without an error.
    :ivar commands: that were run.
    """

    def __init__(self, root: Root) -> None:
        super().__init__(root)
        self.tree = trees.Tree(root.path)
        self.refuses: dict[str, OSError] = {}
        self.deaf: set[str] = set()
        self.commands: list[tuple[str, ...]] = []
        self.before: Callable[[], object] = lambda: None

    def write(self, path, text):
        death.point()
        relative = path[1:]
        if relative in self.refuses:
            raise self.refuses[relative]
        if relative in self.deaf:
            return
        if relative == THP:
            words = ("always", "madvise", "never")
            chosen = text.strip()
            text = " ".join(f"[{x}]" if x == chosen else x for x in words)
        with death.quiet():
            self.tree.write(relative, f"{text.strip()}\n")
            directory, _, name = relative.rpartition("/")
            if name == "smp_affinity_list":
                first = min(parse_cpu_list(text.strip()))
                effective = f"{directory}/effective_affinity_list"
                self.tree.write(effective, f"{first}\n")
        death.point()

    def run(self, command):
        self.commands.append(command)
        death.point()
        with death.quiet():
            self.before()
            if command[0] == "update-grub":
                self.tree.write("boot/grub/grub.cfg", "linux /vmlin")
        death.point()
        with death.quiet():
            if command[0] == "update-grub":
                update_grub(self.tree)
            elif command[0] == "grubby":
                self._grubby(command[2:])
            else:
                self._kernel_install()
        death.point()

    def _grubby(self, options):
        entries = self.tree.path.glob("boot/loader/entries/*.conf")
        paths = [str(x.relative_to(self.tree.path)) for x in entries]
        for path in (*sorted(paths), "etc/kernel/cmdline"):
            text = (self.tree.path / path).read_text()
            for each in options:
                verb, _, words = each.partition("=")
                for word in words.split():
                    text = re.sub(rf" ?{re.escape(word)}(?= |$)", "", text)
                    if verb == "--args":
                        text = f"{text.rstrip()} {word}\n"
            self.tree.write(path, text)

    def _kernel_install(self):
        path = self.tree.path / "etc/kernel/cmdline"
        line = path.read_text().strip() if path.exists() else LINE
        self.tree.write(f"efi/{ENTRY}", f"title Linux\noptions {line}\n")


def observed(tree: trees.Tree) -> HostFacts:
    """Return the facts of a host."""
    observer = Observer(
        tree.root, "rt-1", "rt-1", trees.SOURCES, nova_files=compute.FILES
    )
    return observer.observe()


def planned(tree: trees.Tree) -> tuple[HostFacts, FixPlan]:
    """Return the facts of a host, and its fix plan."""
    facts = observed(tree)
    must = readiness.judge(decisive(facts), placed_by_nova=True).must
    tuned = fix_plan.tuned_of(tree.root)
    return facts, fix_plan.make(facts, must, placed_by_nova=True, tuned=tuned)


def settings_of(tree: trees.Tree) -> list[Setting]:
    """Return all settings of a host's plan."""
    facts, plan = planned(tree)
    return [
        *settings.of_kernel(facts, plan, tree.root),
        *boot.of_disk(plan, tree.root),
        *(
            each
            for each in boot.of_loader(facts, plan, tree.root)
            if isinstance(each, Setting)
        ),
    ]


def snapshot(tree: trees.Tree) -> dict[str, object]:
    """Return each file of a host: its mode, and its bytes."""
    found: dict[str, object] = {}
    for path in sorted(tree.path.rglob("*")):
        relative = str(path.relative_to(tree.path))
        if relative.startswith(_OURS) or relative in ("run", "var/lib"):
            continue
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            found[relative] = (status.st_mode, path.read_bytes())
        else:
            found[relative] = status.st_mode
    return found
