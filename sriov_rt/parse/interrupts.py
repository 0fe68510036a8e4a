# SPDX-License-Identifier: Apache-2.0

"""Interrupts by CPU, as counted in /proc/interrupts."""

import re
from collections.abc import Mapping

from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.text import masked

#: The longest accepted text, in characters: one line for each interrupt, with
#: eleven characters for each CPU (show_interrupts in kernel/irq/proc.c).
MAX_TEXT = 8 * 1024 * 1024

#: The longest name of an interrupt that is kept, in characters.
MAX_NAME = 40

_CPU = re.compile(r"CPU([0-9]{1,5})")
_NUMBER = re.compile(r" *([0-9]{1,10}):")
_COLUMNS = re.compile(r" {2,}|\t")


def parse_interrupts(
    text: str, cpus: CpuSet
) -> Mapping[int, tuple[str, Mapping[int, int]]]:
    """Return each interrupt's number to its name and its counts by CPU.

    Interrupts without a number (the local timer's, calls of other CPUs) and
    incomplete lines are left out.

    :param cpus: the CPUs whose counts to return.
    :raises ParseError: for a text that is too long, or has no header.
    """
    what = "/proc/interrupts"
    errors.check_length(what, text, MAX_TEXT)
    head, *lines = text.splitlines() or [""]
    columns = [int(each) for each in _CPU.findall(head)]
    if not columns:
        raise errors.ParseError(what, text, "a column for each CPU expected")
    counted = [(i, cpu) for i, cpu in enumerate(columns) if cpu in cpus]
    found = {}
    for line in lines:
        number = _NUMBER.match(line)
        if number is None:
            continue
        words = line[number.end() :].split(None, len(columns))
        counts = words[: len(columns)]
        if len(counts) < len(columns) or not all(map(_is_count, counts)):
            continue
        columns_behind = (
            words[len(columns)].strip() if len(words) > len(counts) else ""
        )
        name = _COLUMNS.split(columns_behind)[-1][:MAX_NAME]
        found[int(number[1])] = (
            masked(name),
            {cpu: int(counts[i]) for i, cpu in counted},
        )
    return found


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20
