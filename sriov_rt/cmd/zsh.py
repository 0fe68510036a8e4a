# SPDX-License-Identifier: Apache-2.0

"""Completion for zsh: the commands, their options and what these take."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

#: What argparse calls a value that is a file, or a directory.
_FILES = frozenset({"FILE", "DIR", "FILE|DIR"})

_FUNCTION = """\
#compdef sriov-rt

_sriov_rt() {{
  local -A groups options
  local name="" next
  local -a found
  local -i place=2
  groups=({groups}
  )
  options=({options}
  )
  while (( place < CURRENT )); do
    next=${{name:+$name }}${{words[place]}}
    [[ -n ${{groups[$next]}}${{options[$next]}} ]] || break
    name=$next
    (( place += 1 ))
  done
  if (( place == CURRENT )) && [[ -n ${{groups[$name]}} ]]; then
    found=("${{(@f)groups[$name]}}")
    _describe command found
  fi
  if [[ -n ${{options[$name]}} ]]; then
    words=("" "${{(@)words[place,-1]}}")
    (( CURRENT -= place - 2 ))
    found=("${{(@f)options[$name]}}")
    _arguments -s $found '*:file:_files'
  fi
}}

_sriov_rt "$@"
"""


def script(
    summaries: Mapping[str, str],
    parsers: Mapping[str, argparse.ArgumentParser],
) -> str:
    """Return a file that zsh finds in its ``fpath``.

    :param summaries: command to the summary in its help.
    :param parsers: command to the parser of its command line.
    """
    groups: dict[str, dict[str, str]] = {}
    for name, summary in sorted(summaries.items()):
        group, _, word = name.rpartition(" ")
        groups.setdefault(group, {})[word] = summary
        while group:
            about = f"Commands of sriov-rt {group}"
            group, _, word = group.rpartition(" ")
            groups.setdefault(group, {}).setdefault(word, about)
    return _FUNCTION.format(
        groups=_table(
            (group, [f"{_escaped(word)}:{_escaped(text)}" for word, text in x])
            for group, x in ((g, sorted(w.items())) for g, w in groups.items())
        ),
        options=_table(
            (name, _options(parser)) for name, parser in parsers.items()
        ),
    )


def _table(rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return the words of an associative array, a line for each of a value."""
    return "".join(
        f"\n    {_quoted(name)} {_quoted(chr(10).join(lines))}"
        for name, lines in sorted(rows)
    )


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a parser as ``_arguments`` takes them."""
    for action in parser._actions:  # noqa: SLF001
        if action.help == argparse.SUPPRESS:
            continue
        text = (
            parser._get_formatter()._expand_help(action)  # noqa: SLF001
            if action.help
            else ""
        )
        for option in action.option_strings:
            again = "*" if action.__class__.__name__ == "_AppendAction" else ""
            yield f"{again}{option}[{_escaped(text)}]{_value(action)}"


def _value(action: argparse.Action) -> str:
    """Return what an option takes; nothing for a flag."""
    if action.nargs == 0:
        return ""
    metavar = action.metavar
    name = metavar if isinstance(metavar, str) else action.dest
    if action.choices is not None:
        return f":{_escaped(name)}:({' '.join(map(str, action.choices))})"
    return f":{_escaped(name)}:{'_files' if name in _FILES else ' '}"


def _escaped(text: str) -> str:
    """Return text for a part of what ``_arguments`` and ``_describe`` take."""
    one = " ".join(text.split()).replace("\\", "\\\\")
    for each in "[]:":
        one = one.replace(each, f"\\{each}")
    return one


def _quoted(text: str) -> str:
    """Return text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"
