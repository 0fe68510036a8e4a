# SPDX-License-Identifier: Apache-2.0

"""Settings that take effect at the next boot, as each distribution does it."""

import pathlib
import shlex
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.facts import HostFacts
from sriov_rt.host import maintenance
from sriov_rt.host.fix_plan import CONTRARY
from sriov_rt.host.fix_plan import MAX_COMMAND_LINE
from sriov_rt.host.fix_plan import SYSCTL_FILE
from sriov_rt.host.fix_plan import FixPlan
from sriov_rt.host.fix_plan import ini_text
from sriov_rt.host.fix_plan import sysctl_text
from sriov_rt.host.root import Root
from sriov_rt.parse import kernel
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.tuning.settings import Kind
from sriov_rt.tuning.settings import Setting

HEAD = "# Managed by 'sriov-rt host apply'; do not edit.\n"

#: The profile that tuned activates when it starts (tuned/consts.py). tuned
#: is not restarted: that would undo and redo every setting under guests.
ACTIVE_PROFILE = "/etc/tuned/active_profile"
PROFILE_MODE = "/etc/tuned/profile_mode"

TMPFILES = "/etc/tmpfiles.d/90-sriov-rt.conf"

#: Read after /etc/default/grub by Debian's and Ubuntu's grub-mkconfig.
GRUB_FILE = "/etc/default/grub.d/90-sriov-rt.cfg"
_GRUB_CONFIG = "/boot/grub/grub.cfg"

#: Draft that grub-mkconfig leaves if it is killed.
_GRUB_DRAFT = f"{_GRUB_CONFIG}.new"

#: Command line for boot entries such as systemd-boot's (kernel-install(8)).
KERNEL_LINE = "/etc/kernel/cmdline"
_ENTRIES = tuple(
    f"{each}/loader/entries" for each in ("boot", "efi", "boot/efi")
)

#: Arguments that a boot loader adds itself.
_OF_LOADER = ("BOOT_IMAGE=", "initrd=")

#: The longest file of a boot loader that is read, in bytes.
_MAX_TEXT = 1024 * 1024


def of_disk(plan: FixPlan, root: Root) -> Iterator[Setting]:
    """Yield the files of sysctl.d, tuned or tmpfiles.d, and of units.

    Files that are up to date are left out.
    """
    if plan.dedicated:
        for path, text in _files(plan, root):
            yield from _file(root, path, text)


def _files(plan: FixPlan, root: Root) -> Iterator[tuple[str, str]]:
    yield SYSCTL_FILE, HEAD + sysctl_text(plan.sysctls)
    if has_tuned(root):
        yield plan.tuned_path, HEAD + ini_text(plan.tuned)
        yield ACTIVE_PROFILE, "sriov-rt\n"
        yield PROFILE_MODE, "manual\n"
    else:
        yield TMPFILES, HEAD + "".join(_lines(plan, root))
    if plan.cgroup:
        path, cpus, state = _partition(plan)
        yield (
            f"/etc/systemd/system/{path.name}.d/90-sriov-rt.conf",
            f"{HEAD}[Slice]\nAllowedCPUs={cpus}\nCPUSetPartition={state}\n",
        )


def _partition(plan: FixPlan) -> tuple[pathlib.PurePosixPath, str, str]:
    (path, cpus), (_, state) = plan.cgroup.items()
    return pathlib.PurePosixPath(path).parent, cpus, state


def has_tuned(root: Root) -> bool:
    """Return whether tuned is installed."""
    return root.exists("usr/sbin/tuned") is True


def _lines(plan: FixPlan, root: Root) -> Iterator[str]:
    """Yield the settings of tuned as lines of tmpfiles.d(5)."""
    cpu = "/sys/devices/system/cpu"
    for path, value in plan.tuned.get("sysfs", {}).items():
        yield f"w {path} - - - - {value}\n"
    options = plan.tuned.get("cpu_dedicated", {})
    for name, path in (
        ("governor", "cpufreq/scaling_governor"),
        ("pm_qos_resume_latency_us", "power/pm_qos_resume_latency_us"),
    ):
        if name in options:
            for each in sorted(plan.dedicated):
                yield f"w {cpu}/cpu{each}/{path} - - - - {options[name]}\n"


def of_loader(
    facts: HostFacts, plan: FixPlan, root: Root
) -> Iterator[Setting | Reason]:
    """Yield settings that put a plan's arguments on the command line.

    They follow the distribution's way; where none is known, yield a Reason.
    """
    line = facts.kernel.command_line
    if not plan.dedicated or isinstance(line, Unknown):
        return
    is_booted = not plan.removed and {*plan.arguments} <= {*line.split()}
    # After an undo the kernel has arguments that the next boot will lack.
    if is_booted and maintenance.boot_owed(root) is None:
        return
    is_long = len(plan.command_line or "") > MAX_COMMAND_LINE
    for way in () if is_long else (_grubby, _grub, _kernel_install):
        found = way(facts, plan, root)
        if found is not None:
            if not is_booted or any(x.kind is Kind.PROGRAM for x in found):
                yield from found
            return
    if is_booted:
        return
    old = " ".join(plan.removed)
    yield reason(
        "command_line_by_hand",
        arguments=" ".join(x for x in plan.arguments if x not in line.split()),
        removed=f", and take away {old}" if old else "",
    )


def _grubby(
    _facts: HostFacts, plan: FixPlan, root: Root
) -> list[Setting] | None:
    """Return the call of Fedora's and its kin's program for all kernels."""
    entries = tuple(entries_of(root))
    if root.exists("usr/sbin/grubby") is not True or not entries:
        return None
    if any("$kernelopts" in (_text(root, path) or "") for path in entries):
        return None  # the arguments are in grubenv, not in the entries
    command = ("grubby", "--update-kernel=ALL")
    new, old = " ".join(plan.arguments), " ".join(plan.removed)
    # grubby keeps the command line of future kernels in the last two.
    files = (*entries, KERNEL_LINE, "/etc/default/grub")
    return _program(
        plan,
        root,
        (*command, *_option("remove-args", old), f"--args={new}"),
        (*command, f"--remove-args={new}", *_option("args", old)),
        files,
        entries,
    )


def _option(name: str, value: str) -> tuple[str, ...]:
    return (f"--{name}={value}",) if value else ()


def _grub(
    _facts: HostFacts, plan: FixPlan, root: Root
) -> list[Setting] | None:
    """Return Debian's drop-in for grub-mkconfig and the call of it."""
    if not (
        root.exists("usr/sbin/update-grub") is True
        and root.exists(_GRUB_CONFIG[1:]) is True
    ):
        return None
    command = ("update-grub",)
    files = (_GRUB_CONFIG, _GRUB_DRAFT)
    return [
        *_file(root, GRUB_FILE, grub_text(plan)),
        *_program(plan, root, command, command, files, (_GRUB_CONFIG,)),
    ]


def grub_text(plan: FixPlan) -> str:
    """Return shell code that changes grub-mkconfig's variables."""
    names = {x.partition("=")[0] for x in plan.arguments}
    removed = {f"{x.replace('_', '[-_]')}=*" for x in names} | CONTRARY
    return (
        f"{HEAD}_sriov_rt() {{\n    set -f\n    for word in $1; do\n"
        f'        case "$word" in\n        {"|".join(sorted(removed))}) ;;\n'
        "        *) printf '%s ' \"$word\" ;;\n        esac\n    done\n"
        "    set +f\n}\n"
        'GRUB_CMDLINE_LINUX="$(_sriov_rt "$GRUB_CMDLINE_LINUX")"\n'
        "GRUB_CMDLINE_LINUX_DEFAULT="
        '"$(_sriov_rt "$GRUB_CMDLINE_LINUX_DEFAULT")'
        f'{" ".join(plan.arguments)}"\n'
    )


def _kernel_install(
    facts: HostFacts, plan: FixPlan, root: Root
) -> list[Setting] | None:
    """Return the file that systemd's kernel-install reads, and its call."""
    release, line = facts.kernel.release, plan.command_line
    if (
        root.exists("usr/bin/kernel-install") is not True
        or line is None
        or isinstance(release, Unknown)
    ):
        return None
    entries = tuple(x for x in entries_of(root) if release in x)
    images = (f"lib/modules/{release}/vmlinuz", f"boot/vmlinuz-{release}")
    image = next((x for x in images if root.exists(x) is True), None)
    if image is None or not entries:
        return None
    words = kernel.split_command_line(line)[0]
    text = " ".join(x for x in words if not x.startswith(_OF_LOADER)) + "\n"
    command = ("kernel-install", "add", release, f"/{image}")
    return [
        *_file(root, KERNEL_LINE, text),
        *_program(plan, root, command, command, entries, entries),
    ]


def _file(root: Root, path: str, text: str) -> list[Setting]:
    """Return the setting of a file; empty if the file is up to date."""
    if _text(root, path) == text:
        return []
    return [Setting(Kind.FILE, path, text)]


def _program(
    plan: FixPlan,
    root: Root,
    command: tuple[str, ...],
    undo_command: tuple[str, ...],
    files: tuple[str, ...],
    booted: tuple[str, ...],
) -> list[Setting]:
    """Return the call of a program, unless all entries have the arguments.

    :param booted: files with the command lines that kernels boot with.
    """
    texts = (_text(root, path) or "" for path in booted)
    if all({*plan.arguments} <= {*text.split()} for text in texts):
        return []
    return [
        Setting(
            Kind.PROGRAM,
            shlex.join(command),
            " ".join(plan.arguments),
            command=command,
            undo_command=undo_command,
            files=files,
            booted=booted,
        )
    ]


def entries_of(root: Root) -> Iterator[str]:
    """Yield the entries of kernels that a boot loader has, absolute."""
    for directory in _ENTRIES:
        for name in known_or(root.list_dir(directory), ()):
            if name.endswith(".conf"):
                yield f"/{directory}/{name}"


def by_hand(plan: FixPlan, root: Root) -> Iterator[Reason]:
    """Yield the parts of a plan that only the operator can carry out."""
    yield from plan.by_hand
    if plan.nova:
        options = " ".join(ini_text(plan.nova).split())
        yield reason("nova_by_hand", options=options)
    enabled = "etc/systemd/system/multi-user.target.wants/tuned.service"
    if has_tuned(root) and root.exists(enabled) is False:
        yield reason("tuned_disabled")


def _text(root: Root, path: str) -> str | None:
    return known_or(
        root.read_text(path[1:], _MAX_TEXT, may_be_empty=True), None
    )
