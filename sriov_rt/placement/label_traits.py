# SPDX-License-Identifier: Apache-2.0

"""Labels as traits in Placement.

A label must have the same trait on every host, and no other label may have
that trait. So the trait's name is made of the label alone. A label of a known
form keeps its letters; for any other label, two underscores and a hash of the
label follow, which no known form has.
"""

import fnmatch
import hashlib
import logging
import re
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import LabelFacts
from sriov_rt.parse import features

LOG = logging.getLogger(__name__)

#: Prefix of the traits that are made of labels.
PREFIX = "CUSTOM_NFD_"

#: The longest name of a trait (os_traits, and placement's schema).
MAX_TRAIT = 255

#: The most traits that one host gets from labels.
MAX_TRAITS = 256

#: Hex digits of the hash: 40 bits.
HASH_DIGITS = 10

_NFD = f"{features.PREFIX}/"
_WORD = "[A-Z0-9]+(?:_[A-Z0-9]+)*"
_HEX = "[0-9a-f]{4}(?:_[0-9a-f]{4}){0,4}"

#: The forms of NFD's own labels (its docs, "Feature discovery") that can be
#: read back from their trait: one case of letters, and separators at fixed
#: places. All have the value "true".
FLAGS = re.compile(
    rf"pci-{_HEX}\.present"
    rf"|pci-{_HEX}\.sriov\.capable"
    rf"|kernel-config\.{_WORD}"
    rf"|cpu-cpuid\.{_WORD}"
    r"|network-sriov\.(?:capable|configured)"
    r"|cpu-hardware_multithreading"
    r"|cpu-cstate\.enabled"
    r"|memory-(?:numa|swap|nv\.present|nv\.dax)"
    r"|storage-nonrotationaldisk"
    r"|kernel-selinux\.enabled"
)

#: The same for labels with whole numbers as values, which end the trait.
NUMBERS = re.compile(
    r"kernel-version\.(?:major|minor|revision)"
    r"|cpu-model\.(?:family|id)"
)

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


def name(key: str, value: str) -> str:
    """Return the trait of a label.

    :param key: full key of the label.
    :param value: any value of a label.
    """
    short = key.removeprefix(_NFD)
    if short != key:
        if value == "true" and FLAGS.fullmatch(short):
            return PREFIX + _folded(short)
        if NUMBERS.fullmatch(short) and _NUMBER.fullmatch(value):
            return f"{PREFIX}{_folded(short)}_{value}"
    text = f"{key}={value}"
    digest = hashlib.sha256(text.encode()).hexdigest().upper()
    words = short if value == "true" else f"{short}_{value}"
    room = MAX_TRAIT - len(PREFIX) - 2 - HASH_DIGITS
    folded = _folded(words)[:room].strip("_")
    return f"{PREFIX}{folded}__{digest[:HASH_DIGITS]}"


def of(labels: LabelFacts, allowed: Iterable[str]) -> frozenset[str]:
    """Return the traits of the labels that are allowed and not stale.

    :param allowed: shell patterns of keys; NFD's prefix is added to a pattern
        without a slash.
    """
    values, sources, stale = labels.values, labels.sources, labels.stale
    if (
        isinstance(values, Unknown)
        or isinstance(sources, Unknown)
        or isinstance(stale, Unknown)
    ):
        return frozenset()
    chosen = [
        key
        for key in _matching(values, allowed)
        if sources.get(key) not in stale
    ]
    if len(chosen) > MAX_TRAITS:
        LOG.warning(
            "%d labels are allowed by [labels] traits, and %d become traits; "
            "narrow the patterns",
            len(chosen),
            MAX_TRAITS,
        )
    return frozenset(name(key, values[key]) for key in chosen[:MAX_TRAITS])


def _matching(values: Mapping[str, str], allowed: Iterable[str]) -> list[str]:
    patterns = [features.full_key(each) for each in allowed]
    return [
        key
        for key in sorted(values)
        if any(fnmatch.fnmatchcase(key, each) for each in patterns)
    ]


def _folded(text: str) -> str:
    return re.sub("[^A-Z0-9]", "_", text.upper())
