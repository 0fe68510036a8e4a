# SPDX-License-Identifier: Apache-2.0

"""ParseError, which every parser raises."""

from sriov_rt import exceptions

#: The most characters of a refused text that an error shows.
MAX_TEXT = 80


class ParseError(exceptions.SriovRtError, ValueError):
    """A text does not follow its grammar.

    :param what: what was parsed, such as ``cpu list``.
    :param text: the whole text; it is stored shortened to MAX_TEXT characters.
    :param problem: what is wrong or what was expected, a clause.
    :param position: position of the problem, in characters from 0; None for
        the whole text.
    """

    def __init__(
        self, what: str, text: str, problem: str, position: int | None = None
    ) -> None:
        if len(text) > MAX_TEXT:
            text = text[: MAX_TEXT - 3] + "..."
        super().__init__(what, text, problem, position)
        self.what = what
        self.text = text
        self.problem = problem
        self.position = position

    def __str__(self) -> str:
        where = "" if self.position is None else f" at {self.position}"
        return f"Invalid {self.what} {self.text!r}{where}: {self.problem}."


def check_length(what: str, text: str, limit: int) -> None:
    """Refuse a text that is longer than its parser accepts.

    :param limit: the longest text, in characters.
    :raises ParseError: if it is longer.
    """
    if len(text) > limit:
        raise ParseError(what, text, f"at most {limit} characters", limit)
