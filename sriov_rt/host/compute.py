# SPDX-License-Identifier: Apache-2.0

"""Nova's configuration on the host: its CPU sets and power management."""

from collections.abc import Mapping
from collections.abc import Sequence

from oslo_config import iniparser

from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import PowerManagement
from sriov_rt.host import compute_driver_socket
from sriov_rt.host.compute_driver_socket import Driver
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors

#: Paths of nova-compute's configuration, in its order: the files that
#: oslo.config looks for, DevStack's nova-cpu.conf, then the directories. A
#: name that ends with ``.d`` is a directory whose ``*.conf`` are read.
FILES = (
    "etc/nova/nova.conf",
    "etc/nova/nova-cpu.conf",
    "etc/nova/nova-compute.conf",
    "etc/nova/nova.conf.d",
    "etc/nova/nova-compute.conf.d",
)

#: The kernel's host name, which Nova uses if nova.conf has none.
HOSTNAME = "proc/sys/kernel/hostname"

#: The longest file that is read, in bytes. Nova's sample with every option and
#: its help is 0.5 MB.
MAX_FILE = 4 * 1024 * 1024

#: Defaults of options in ``[libvirt]`` (nova/conf/libvirt.py).
_POWER_DEFAULTS = {
    "cpu_power_management": "false",
    "cpu_power_management_strategy": "cpu_state",
    "cpu_power_governor_low": "powersave",
    "cpu_power_governor_high": "performance",
}

#: Choices of ``cpu_power_management_strategy``: Nova does not start with
#: another value.
STRATEGIES = ("cpu_state", "governor")

#: Names of files, or the reason why they are unknown.
Files = Sequence[str] | Unknown

#: Value by section and option; the last file that sets it counts.
Settings = Mapping[tuple[str, str], str]


class _Collector(iniparser.BaseParser):
    """The parser that reads Nova's own configuration.

    It has no commands, includes or interpolation: all are plain text.
    """

    def __init__(self, settings: dict[tuple[str, str], str]) -> None:
        self._settings = settings
        self._section = "DEFAULT"

    def new_section(self, section: str) -> None:
        self._section = section

    def assignment(self, key: str, value: list[str]) -> None:
        self._settings[self._section, key] = "\n".join(value)


def read(root: Root, files: Files = FILES) -> Settings | None | Unknown:
    """Return Nova's settings; None if it has no configuration.

    :param files: relative to the root; a later one overrides an earlier one.
    """
    if isinstance(files, Unknown):
        return files
    settings: dict[tuple[str, str], str] = {}
    found = False
    for path in _expand(root, files):
        if isinstance(path, Unknown):
            return path
        text = root.read_text(path, MAX_FILE, may_be_empty=True)
        if isinstance(text, Unknown):
            if root.exists(path) is False:
                continue
            return text
        found = True
        try:
            _Collector(settings).parse(text.split("\n"))
        except iniparser.ParseError as error:
            # The error's text would show the line, which may be a password.
            return Unknown(f"/{path}: line {error.lineno}: {error.msg}")
    return settings if found else None


def named_files(root: Root) -> Files:
    """Return nova-compute's files, as the host's agent reads them.

    They are those of ``[agent] nova_config_files`` in its sriov-rt.conf.
    """
    own = read(root, (CONFIG,))
    if own is None:
        return FILES
    if isinstance(own, Unknown):
        return own
    named = own.get(("agent", "nova_config_files"), "").split(",")
    return [each.strip() for each in named if each.strip()] or FILES


def host_name(
    root: Root, settings: Settings | None | Unknown
) -> str | Unknown:
    """Return the host's name in nova-compute.

    :param settings: Nova's settings; without them it is the kernel's name.
    """
    if settings is not None and not isinstance(settings, Unknown):
        configured = settings.get(("DEFAULT", "host"), "").strip()
        if "$" in configured:
            return Unknown(f"[DEFAULT] host of nova.conf is {configured}")
        if configured:
            return configured
    hostname = root.read_text(HOSTNAME)
    return hostname if isinstance(hostname, Unknown) else hostname.strip()


def _expand(root: Root, files: Sequence[str]) -> list[str | Unknown]:
    expanded: list[str | Unknown] = []
    for path in (each.lstrip("/") for each in files):
        if not path.endswith(".d"):
            expanded.append(path)
            continue
        names = root.list_dir(path)
        if not isinstance(names, Unknown):
            expanded += [
                f"{path}/{name}" for name in names if name.endswith(".conf")
            ]
        elif root.exists(path) is not False:
            expanded.append(names)
    return expanded


def observe(
    root: Root,
    files: Files | None = None,
    host: str | None = None,
) -> ComputeFacts:
    """Return the CPUs that Nova may use, and the driver that it runs.

    :param files: Nova's configuration files, relative to the root; None for
        those of :func:`named_files`.
    :param host: Nova's name of the host; None to look for no driver.
    """
    settings = read(root, named_files(root) if files is None else files)
    return ComputeFacts(
        dedicated=_cpus(settings, "cpu_dedicated_set"),
        shared=_cpus(settings, "cpu_shared_set"),
        power_management=_power_management(settings),
        driver=NOT_REPORTED if host is None else _driver(root, host),
    )


def _driver(root: Root, host: str) -> str | None | Unknown:
    found = compute_driver_socket.observe(root, host)
    return found.version if isinstance(found, Driver) else found


def _cpus(
    settings: Settings | None | Unknown, option: str
) -> CpuSet | None | Unknown:
    if settings is None or isinstance(settings, Unknown):
        return settings
    text = settings.get(("compute", option), "").strip()
    if not text:
        return None
    try:
        return cpulist.parse_cpu_list(text, exclusions=True)
    except errors.ParseError as error:
        return Unknown(f"[compute] {option} of nova.conf: {error}")


def _power_management(
    settings: Settings | None | Unknown,
) -> PowerManagement | None | Unknown:
    if settings is None or isinstance(settings, Unknown):
        return settings
    # Imported here: it is slow to import, and a hook waits even without Nova.
    from oslo_utils import strutils

    found = {
        option: settings.get(("libvirt", option), default).strip()
        for option, default in _POWER_DEFAULTS.items()
    }
    try:
        managed = strutils.bool_from_string(
            found["cpu_power_management"], strict=True
        )
    except ValueError:
        return _invalid("cpu_power_management", "true or false")
    if not managed:
        return None
    strategy = found["cpu_power_management_strategy"]
    if strategy not in STRATEGIES:
        expected = " or ".join(STRATEGIES)
        return _invalid("cpu_power_management_strategy", expected)
    return PowerManagement(
        strategy,
        found["cpu_power_governor_low"],
        found["cpu_power_governor_high"],
    )


def _invalid(option: str, expected: str) -> Unknown:
    return Unknown(f"[libvirt] {option} of nova.conf: {expected} expected")
