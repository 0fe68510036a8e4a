# SPDX-License-Identifier: Apache-2.0

"""The kernel's command line, its isolcpus parameter and its release."""

import dataclasses
import re
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.parse import cpulist
from sriov_rt.parse import errors

#: The longest accepted command line, in characters. COMMAND_LINE_SIZE is 2048
#: on x86 and arm64 (asm/setup.h), and 4096 at most (s390).
MAX_COMMAND_LINE = 64 * 1024

#: __NEW_UTS_LEN in include/uapi/linux/utsname.h.
MAX_RELEASE = 64

#: The flags of isolcpus= (housekeeping_isolcpus_setup in
#: kernel/sched/isolation.c).
ISOLCPUS_FLAGS = frozenset({"nohz", "domain", "managed_irq"})

#: An argument. Between double quotes, blanks do not separate arguments.
_ARGUMENT = re.compile(r'(?:[^\s"]++|"[^"]*+"?+)++', re.ASCII)
_FLAG = re.compile(r"[A-Za-z][^,]*")
_FLAG_NAME = re.compile(r"[A-Za-z_]+")
_RELEASE = re.compile(
    r"([0-9]{1,5})\.([0-9]{1,5})(?:\.([0-9]{1,5}))?(?![0-9])[!-~]*"
)


@dataclasses.dataclass(frozen=True, slots=True)
class KernelCommandLine:
    """The parameters of a command line, in its order.

    A hyphen and an underscore in a key are equivalent (parameqn in
    kernel/params.c).

    :param parameters: keys and values; None for a key without a value.
    """

    parameters: tuple[tuple[str, str | None], ...]

    def get(self, key: str) -> str | None:
        """Return the last value of a key; None if it has none."""
        found = self.all(key)
        return found[-1] if found else None

    def all(self, key: str) -> tuple[str | None, ...]:
        """Return the values of a key, in order."""
        same = _same(key)
        return tuple(v for k, v in self.parameters if _same(k) == same)

    def __contains__(self, key: str) -> bool:
        return bool(self.all(key))

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        return iter(self.parameters)


@dataclasses.dataclass(frozen=True, slots=True)
class IsolCpus:
    """Value of isolcpus=.

    :param flags: those of ISOLCPUS_FLAGS that are in force.
    """

    flags: frozenset[str]
    cpus: cpulist.CpuSet


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class KernelVersion:
    """A kernel's version; ``full`` is the release as uname prints it."""

    major: int
    minor: int
    patch: int
    full: str


def parse_kernel_command_line(text: str) -> KernelCommandLine:
    """Return the parameters of a kernel command line.

    It is split as by the kernel (next_arg in lib/cmdline.c). Arguments after
    ``--`` are for init and left out (parse_args in kernel/params.c).

    :param text: content of ``/proc/cmdline``.
    :raises ParseError: if it is longer than MAX_COMMAND_LINE.
    """
    errors.check_length("kernel command line", text, MAX_COMMAND_LINE)
    parameters = []
    for argument in _ARGUMENT.finditer(text.removesuffix("\n")):
        parameter = _split(argument[0])
        if parameter == ("--", None):
            break
        parameters.append(parameter)
    return KernelCommandLine(tuple(parameters))


def split_command_line(text: str) -> tuple[list[str], list[str]]:
    """Return the kernel's arguments, and those for init.

    :param text: content of ``/proc/cmdline``.
    :returns: two lists; the second one starts with ``--`` unless it is empty.
    """
    words = [each[0] for each in _ARGUMENT.finditer(text.removesuffix("\n"))]
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end:]


def parse_isolcpus(value: str, possible: int | None = None) -> IsolCpus:
    """Return the flags and CPUs of a value of isolcpus=.

    As in the kernel (housekeeping_isolcpus_setup in
    kernel/sched/isolation.c), flags come first, unknown ones are ignored, and
    without a known one ``domain`` is used.

    :param value: such as ``managed_irq,domain,2-7``.
    :param possible: how many CPUs there can be, to know ``N``.
    :raises ParseError: if the kernel would drop the parameter.
    """
    errors.check_length("isolcpus", value, cpulist.MAX_TEXT)
    flags = set()
    position = 0
    while flag := _FLAG.match(value, position):
        if not _FLAG_NAME.fullmatch(flag[0]):
            raise errors.ParseError(
                "isolcpus", value, "the flag is no name", position
            )
        position = flag.end() + 1
        if position > len(value):
            raise errors.ParseError(
                "isolcpus", value, "a cpu list expected", flag.end()
            )
        flags.add(flag[0])
    try:
        cpus = cpulist.parse_cpu_list(value[position:], possible=possible)
    except errors.ParseError as error:
        raise errors.ParseError(
            "isolcpus",
            value,
            error.problem,
            None if error.position is None else position + error.position,
        ) from None
    return IsolCpus(
        frozenset(flags & ISOLCPUS_FLAGS) or frozenset({"domain"}), cpus
    )


def isolation(
    line: KernelCommandLine, possible: int | None = None
) -> Mapping[str, cpulist.CpuSet]:
    """Return the CPUs of each flag of isolcpus= that is in force.

    Several parameters add up. A parameter that names other CPUs for a flag of
    an earlier one is dropped as a whole (housekeeping_setup in
    kernel/sched/isolation.c).

    :param possible: how many CPUs there can be, to know ``N``.
    :raises ParseError: if the kernel would drop one of them.
    """
    found: dict[str, cpulist.CpuSet] = {}
    for value in line.all("isolcpus"):
        each = parse_isolcpus(value or "", possible)
        if all(found.get(flag, each.cpus) == each.cpus for flag in each.flags):
            found |= dict.fromkeys(each.flags, each.cpus)
    return found


def parse_version(release: str) -> KernelVersion:
    """Return the version of a release such as ``6.1.0-44-rt-amd64``.

    :param release: output of uname or ``/proc/sys/kernel/osrelease``.
    :raises ParseError: if it does not start with two or three numbers, or
        has blanks or more than MAX_RELEASE characters.
    """
    full = release.removesuffix("\n")
    errors.check_length("kernel release", full, MAX_RELEASE)
    match = _RELEASE.fullmatch(full)
    if match is None:
        raise errors.ParseError(
            "kernel release", full, "a release such as 6.1.0-44 expected"
        )
    major, minor, patch = match.groups(default="0")
    return KernelVersion(int(major), int(minor), int(patch), full)


def _same(key: str) -> str:
    return key.replace("-", "_")


def _split(argument: str) -> tuple[str, str | None]:
    """Return the key and the value of an argument, without its quotes."""
    quoted = argument.startswith('"')
    if quoted:
        argument = argument[1:]
    # An equals sign at the start belongs to the key.
    equals = argument.find("=", 1)
    if equals < 0:
        return (argument.removesuffix('"') if quoted else argument), None
    value = argument[equals + 1 :]
    if value.startswith('"'):
        quoted = True
        value = value[1:]
    return argument[:equals], value.removesuffix('"') if quoted else value
