# SPDX-License-Identifier: Apache-2.0

"""A number's name carries its unit, unless the field has another name.

Nanoseconds for microseconds, or bytes for bits, raise no error anywhere.
"""

import re
import unittest

from tests.unit.documented_host import ROOT

#: Unit in a parameter's description, and what its name then contains.
UNITS = {
    r"µs": "us",
    r"ns": "ns",
    r"ms": "ms",
    r"[kK]bit/s": "kbps",
    r"Mb(?:it)?/s": "mbps",
    r"KiB": "kib",
    r"MiB": "mib",
    r"seconds": "s",
}

#: Points in time and clocks, which are not durations.
_TIME = re.compile(r"Unix time|clock|monotonic", re.IGNORECASE)

#: Names without a unit, and the reason for each.
NAMES = {
    "min_tx_rate": "of rtnetlink",
    "max_tx_rate": "of rtnetlink",
    "minimum": "of a family's rate: Mbit/s, as max_tx_rate",
    "buckets": "a number of buckets of 1 µs",
    "histogram": "pairs of µs and samples",
    "everywhere": "names /proc/*/ns/net",
}

#: Callables and words beside a number of seconds.
_CALLED = re.compile(
    r"is called|is told|is done|returns|waits|some seconds|two seconds"
)

_PARAMETER = re.compile(
    r":(?:param|ivar) (\w+): ((?:.+\n)(?:\s{8,}[^:\n ].*\n)*)"
)


class NamesTest(unittest.TestCase):
    def test_a_name_carries_the_unit(self) -> None:
        carried = 0
        for path in sorted((ROOT / "sriov_rt").rglob("*.py")):
            for name, text in _PARAMETER.findall(path.read_text()):
                if name in NAMES or _TIME.search(text):
                    continue
                if _CALLED.search(text):
                    continue
                for unit, suffix in UNITS.items():
                    if re.search(rf"(?<![\w/]){unit}\b", text):
                        carried += 1
                        with self.subTest(path=path.name, name=name):
                            self.assertRegex(name, rf"_{suffix}(_|$)")
        self.assertGreater(carried, 50)
