# SPDX-License-Identifier: Apache-2.0

"""Configuration files as oslo.config reads them."""

import pathlib
from collections.abc import Mapping

#: A tuple becomes a line per element (oslo.config's MultiStrOpt).
Value = str | int | bool | pathlib.Path | tuple[str, ...]
Section = Mapping[str, Value]


def render(sections: Mapping[str, Section]) -> str:
    """Return the text of a configuration file.

    :param sections: options of each section, by section name.
    """
    lines: list[str] = []
    for name, options in sections.items():
        lines.append(f"[{name}]")
        for option, value in options.items():
            values = value if isinstance(value, tuple) else (value,)
            lines += (f"{option} = {_text(each)}" for each in values)
        lines.append("")
    return "\n".join(lines)


def write(path: pathlib.Path, sections: Mapping[str, Section]) -> None:
    """Write a configuration file, with its directory.

    :param path: the file.
    :param sections: options of each section, by section name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(sections))


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
