# SPDX-License-Identifier: Apache-2.0

"""Lists and masks of CPUs, as the kernel, Nova and libvirt write them."""

import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from collections.abc import Set
from typing import Any

from sriov_rt.parse import errors

#: The most CPUs that an x86 kernel can be built for: CONFIG_NR_CPUS with
#: MAXSMP (NR_CPUS_RANGE_END in arch/x86/Kconfig).
MAX_CPUS = 8192

#: The longest accepted text, in characters: a list of every second CPU of
#: MAX_CPUS, each by its number, takes a third of it.
MAX_TEXT = 64 * 1024

_CPU_LIST = "cpu list"
_CPU_MASK = "cpu mask"

#: The kernel keeps a list's numbers in unsigned int (lib/bitmap-str.c).
_UINT_DIGITS = len(str(2**32 - 1))

_NUMBER = r"(?:N|[0-9]+)"
_BLANK = r"[ \t]*"
_REGION = re.compile(
    rf"(?P<exclude>\^{_BLANK})?"
    rf"(?:(?P<cpu>{_NUMBER})"
    rf"|(?:(?i:all)|(?P<first>{_NUMBER}){_BLANK}-{_BLANK}(?P<last>{_NUMBER}))"
    rf"(?::(?P<used>{_NUMBER})/(?P<group>{_NUMBER}))?)"
)
#: The longest start of a region, to report where a text goes wrong.
_START_OF_REGION = re.compile(
    rf"(?:\^{_BLANK})?"
    rf"(?:(?:(?i:all)|{_NUMBER}{_BLANK}-{_BLANK}{_NUMBER})"
    rf"(?::(?:{_NUMBER}(?:/{_NUMBER}?)?)?)?"
    rf"|{_NUMBER}(?:{_BLANK}-{_BLANK})?)?"
)
_KERNEL_REGIONS = re.compile(r"[^, \t]+")
_NOVA_REGIONS = re.compile(r"[^,\s](?:[^,]*[^,\s])?", re.ASCII)
_MASK_CHUNK = re.compile(r"[0-9a-fA-F]{1,8}")


class CpuSet(Set[int]):
    """An immutable set of CPUs, kept as the bits of one number.

    It equals any other set of the same numbers. A set of MAX_CPUS takes
    1 kB, where a frozenset takes half a megabyte.

    :param cpus: CPU numbers, below MAX_CPUS.
    :raises ValueError: for an invalid CPU number.
    """

    __slots__ = ("_bits",)

    _bits: int

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        self._bits = _bits_of(cpus)

    @classmethod
    def of_bits(cls, bits: int) -> "CpuSet":
        """Return the set whose CPUs are the positions of the bits set."""
        found = cls.__new__(cls)
        found._bits = bits  # noqa: SLF001
        return found

    @property
    def bits(self) -> int:
        """The number whose bits are the CPUs."""
        return self._bits

    def __contains__(self, cpu: object) -> bool:
        return (
            isinstance(cpu, int) and cpu >= 0 and bool(self._bits >> cpu & 1)
        )

    def __iter__(self) -> Iterator[int]:
        """Yield the CPUs in their order."""
        digits = f"{self._bits:b}"[::-1]
        return (cpu for cpu, bit in enumerate(digits) if bit == "1")

    def __len__(self) -> int:
        return self._bits.bit_count()

    def __bool__(self) -> bool:
        return self._bits != 0

    def __and__(self, other: Iterable[Any]) -> "CpuSet":
        return CpuSet.of_bits(self._bits & _bits_of(other))

    def __or__(self, other: Iterable[Any]) -> "CpuSet":
        return CpuSet.of_bits(self._bits | _bits_of(other))

    def __sub__(self, other: Iterable[Any]) -> "CpuSet":
        return CpuSet.of_bits(self._bits & ~_bits_of(other))

    def __rsub__(self, other: Iterable[Any]) -> "CpuSet":
        return CpuSet.of_bits(_bits_of(other) & ~self._bits)

    __rand__ = __and__
    __ror__ = __or__

    def __le__(self, other: Set[Any]) -> bool:
        if isinstance(other, CpuSet):
            return not self._bits & ~other._bits
        return all(cpu in other for cpu in self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CpuSet):
            return self._bits == other._bits
        return Set.__eq__(self, other)

    def __hash__(self) -> int:
        # The same as that of a frozenset, which may be equal.
        return self._hash()

    def isdisjoint(self, other: Iterable[Any]) -> bool:
        """Return whether no CPU is in both sets."""
        return not self._bits & _bits_of(other)

    def union(self, *others: Iterable[int]) -> "CpuSet":
        """Return the CPUs of this set and of all others."""
        bits = self._bits
        for each in others:
            bits |= _bits_of(each)
        return CpuSet.of_bits(bits)

    def __repr__(self) -> str:
        return f"CpuSet({format_cpu_list(self)!r})"


def parse_cpu_list(
    text: str, *, exclusions: bool = False, possible: int | None = None
) -> CpuSet:
    """Return the CPUs of a list such as ``0-3,8`` or ``0-63:2/16``.

    The grammar is the kernel's (bitmap_parselist in lib/bitmap-str.c):
    numbers and ranges separated by commas or blanks. A range may be limited
    to a number of CPUs of each group; an empty text is the empty set.

    :param exclusions: also accept ``^4`` and ``^4-7``, which exclude CPUs
        wherever they appear, and blanks around numbers: the grammar of Nova's
        ``cpu_dedicated_set`` (parse_cpu_spec in nova/virt/hardware.py).
    :param possible: how many CPUs there can be, at least 1. It defines
        ``all`` and ``N``, the last CPU, and makes a CPU beyond it an error as
        in the kernel.
    :raises ParseError: if it is no such list, is longer than MAX_TEXT or
        names a CPU beyond ``possible`` or MAX_CPUS.
    """
    errors.check_length(_CPU_LIST, text, MAX_TEXT)
    regions = _NOVA_REGIONS if exclusions else _KERNEL_REGIONS
    included = excluded = 0
    for each in regions.finditer(text, 0, len(text.removesuffix("\n"))):
        region = _REGION.fullmatch(text, each.start(), each.end())
        if region is None or (region["exclude"] and not exclusions):
            raise _no_region(text, each.start(), each.end(), exclusions)
        bits = _region_bits(region, possible)
        if region["exclude"]:
            excluded |= bits
        else:
            included |= bits
    return CpuSet.of_bits(included & ~excluded)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel prints them: ``0-3,8``.

    :param cpus: CPU numbers, in any order.
    """
    return ",".join(_range(*each) for each in _runs(cpus))


def _runs(cpus: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last CPU of each run of consecutive CPUs."""
    runs: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return runs


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def format_short_cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs in the shortest form that the kernel takes: ``1-7:1/2``.

    Runs with the same length and distance become a range with the used part
    of each group, if that is shorter.

    :param cpus: CPU numbers, in any order.
    """
    runs = _runs(cpus)
    found: list[str] = []
    while runs:
        count = _repeats(runs)
        plain = ",".join(_range(*each) for each in runs[:count])
        (first, last), (_, end) = runs[0], runs[count - 1]
        if count > 1:
            used, group = last - first + 1, runs[1][0] - first
            found.append(min(plain, f"{first}-{end}:{used}/{group}", key=len))
        else:
            found.append(plain)
        runs = runs[count:]
    return ",".join(found)


def _repeats(runs: Sequence[tuple[int, int]]) -> int:
    """Return how many runs, from the first on, repeat regularly."""
    count = 1
    while count < len(runs):
        (first, last), (start, end) = runs[count - 1], runs[count]
        distance = runs[1][0] - runs[0][0]
        if end - start != last - first or start - first != distance:
            break
        count += 1
    return count


def format_cpu_mask(cpus: Iterable[int]) -> str:
    """Return CPUs as a mask in the kernel's form: ``ff,ffffffff``.

    :param cpus: CPU numbers, in any order.
    """
    bits = sum(1 << cpu for cpu in set(cpus))
    chunks = []
    while bits > 0xFFFFFFFF:
        chunks.append(f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join([f"{bits:x}", *reversed(chunks)])


def parse_cpu_mask(text: str) -> CpuSet:
    """Return the CPUs of a mask such as ``ff,ffffffff``.

    The grammar is what the kernel prints in ``/proc/irq/*/smp_affinity``:
    hexadecimal, 32 CPUs between two commas, the first CPU last.

    :raises ParseError: if it is no such mask, is empty, is longer than
        MAX_TEXT or names a CPU beyond MAX_CPUS.
    """
    errors.check_length(_CPU_MASK, text, MAX_TEXT)
    mask = text.rstrip("\n")
    position = 0
    digits = []
    for chunk in mask.split(","):
        if not _MASK_CHUNK.fullmatch(chunk):
            problem = "1 to 8 hexadecimal digits between commas expected"
            raise errors.ParseError(_CPU_MASK, text, problem, position)
        digits.append(chunk.zfill(8))
        position += len(chunk) + 1
    bits = int("".join(digits), 16)
    if bits.bit_length() > MAX_CPUS:
        problem = f"a CPU beyond {MAX_CPUS - 1}"
        raise errors.ParseError(_CPU_MASK, text, problem)
    return CpuSet.of_bits(bits)


def _bits_of(cpus: Iterable[int]) -> int:
    if isinstance(cpus, CpuSet):
        return cpus.bits
    bits = 0
    for cpu in cpus:
        if cpu >= MAX_CPUS:
            raise ValueError(f"a CPU beyond {MAX_CPUS - 1}")
        bits |= 1 << cpu
    return bits


def _no_region(
    text: str, start: int, end: int, exclusions: bool
) -> errors.ParseError:
    position = start
    if exclusions or text[start] != "^":
        viable = _START_OF_REGION.match(text, start, end)
        position = viable.end() if viable else start
    expected = "a CPU or a range such as 2-7 or 2-7:1/2 expected"
    if exclusions:
        expected = "a CPU, a range such as 2-7, or ^ and one expected"
    return errors.ParseError(_CPU_LIST, text, expected, position)


def _region_bits(region: re.Match[str], possible: int | None) -> int:
    """Return a region as a bit mask, checked in the order of its text."""
    count = MAX_CPUS if possible is None else min(possible, MAX_CPUS)
    if region["cpu"]:
        return 1 << _cpu(region, "cpu", count, possible)
    if region["first"]:
        first = _cpu(region, "first", count, possible)
        last = _cpu(region, "last", count, possible)
    elif possible is None:
        raise _unknown(region, region.start())
    else:
        first, last = 0, count - 1
    if first > last:
        problem = "the range runs backwards"
        raise errors.ParseError(
            _CPU_LIST, region.string, problem, region.start()
        )
    length = last - first + 1
    if not region["used"]:
        return ((1 << length) - 1) << first
    used = _number(region, "used", possible)
    group = _number(region, "group", possible)
    if group == 0 or used > group:
        problem = "the part used of a group is greater than the group"
        raise errors.ParseError(
            _CPU_LIST, region.string, problem, region.start("used")
        )
    return _stride(min(used, length), group, length) << first


def _stride(used: int, group: int, length: int) -> int:
    """Return ``used`` bits out of every ``group``, in ``length`` bits."""
    bits = (1 << used) - 1
    while group < length:
        # Doubles the groups each time, so that the work stays near the size
        # of the result.
        bits |= bits << group
        group *= 2
    return bits & ((1 << length) - 1)


def _number(region: re.Match[str], name: str, possible: int | None) -> int:
    digits = region[name]
    if digits == "N":
        if possible is None:
            raise _unknown(region, region.start(name))
        return possible - 1
    digits = digits.lstrip("0") or "0"
    if len(digits) > _UINT_DIGITS:
        problem = "the number is too large"
        raise errors.ParseError(
            _CPU_LIST, region.string, problem, region.start(name)
        )
    return int(digits)


def _cpu(
    region: re.Match[str], name: str, count: int, possible: int | None
) -> int:
    cpu = _number(region, name, possible)
    if not 0 <= cpu < count:
        raise errors.ParseError(
            _CPU_LIST,
            region.string,
            f"a CPU beyond {count - 1}",
            region.start(name),
        )
    return cpu


def _unknown(region: re.Match[str], position: int) -> errors.ParseError:
    problem = "how many CPUs the host can have is not known"
    return errors.ParseError(_CPU_LIST, region.string, problem, position)
