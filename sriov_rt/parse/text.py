# SPDX-License-Identifier: Apache-2.0

"""Text from elsewhere, without the characters that steer a terminal."""


def printable(text: str) -> str:
    """Return text whose control characters are escaped."""
    return "".join(
        each if each.isprintable() else f"\\x{ord(each):02x}" for each in text
    )


def masked(text: str) -> str:
    """Return text of the same length, a "?" for each control character."""
    return "".join(each if each.isprintable() else "?" for each in text)
