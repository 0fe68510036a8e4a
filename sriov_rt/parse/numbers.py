# SPDX-License-Identifier: Apache-2.0

"""Whole numbers in ASCII digits, within bounds."""

from sriov_rt.parse import errors


def parse_int(text: str, what: str, minimum: int, maximum: int) -> int:
    """Return a decimal text as a number.

    Unlike int() it accepts no spaces, underscores, plus signs or digits of
    other scripts, and it checks the length before it converts.

    :param what: what the number is, for the error.
    :param minimum: the least value; a minus sign is valid if it is negative.
    :raises ParseError: if the text is not a number within the bounds.
    """
    negative = minimum < 0 and text.startswith("-")
    digits = text[1:] if negative else text
    if not (digits.isascii() and digits.isdigit()):
        raise errors.ParseError(
            what,
            text,
            f"a whole number from {minimum} to {maximum} expected",
            len(text) - len(digits) + _digits(digits),
        )
    longest = max(len(str(abs(minimum))), len(str(abs(maximum))))
    significant = digits.lstrip("0") or "0"
    if len(significant) <= longest:
        value = -int(significant) if negative else int(significant)
        if minimum <= value <= maximum:
            return value
    raise errors.ParseError(
        what, text, f"out of range, from {minimum} to {maximum} expected"
    )


def _digits(text: str) -> int:
    """Return how many ASCII digits a text starts with."""
    return len(text) - len(text.lstrip("0123456789"))
