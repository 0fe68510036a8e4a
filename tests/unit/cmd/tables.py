# SPDX-License-Identifier: Apache-2.0

"""Reads the tables that commands print."""


def rows(printed: str) -> list[dict[str, str]]:
    """Return the rows of the first table, wrapped cells as one line."""
    lines = [line for line in printed.splitlines() if line[:1] in ("|", "+")]
    if not lines:
        return []
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in lines
        if line.startswith("|")
    ]
    head, *rest = cells
    found: list[list[str]] = []
    for row in rest:
        if row[0] or not found:
            found.append(row)
        else:
            pairs = zip(found[-1], row, strict=True)
            found[-1] = [f"{a} {b}".rstrip() for a, b in pairs]
    return [dict(zip(head, row, strict=True)) for row in found]


def fields(printed: str) -> dict[str, str]:
    """Return the fields of one thing."""
    return {row["Field"]: row["Value"] for row in rows(printed)}


def width(printed: str) -> int:
    """Return how many columns of a terminal its tables take."""
    lines = [line for line in printed.splitlines() if line[:1] in ("|", "+")]
    return max(map(len, lines), default=0)
