# SPDX-License-Identifier: Apache-2.0

"""External text without the characters that control a terminal."""


def printable(text: str) -> str:
    """Return text with its control characters escaped."""
    return "".join(
        each if each.isprintable() else f"\\x{ord(each):02x}" for each in text
    )


def masked(text: str) -> str:
    """Return text with a "?" in place of each control character."""
    return "".join(each if each.isprintable() else "?" for each in text)
