# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""ParseError, which every parser raises."""

from sriov_rt import exceptions

#: How much of a refused text an error shows, in characters.
MAX_TEXT = 80


class ParseError(exceptions.SriovRtError, ValueError):
    """A text that is not in the grammar it should be in.

    :param what: what was to be parsed, such as ``cpu list``.
    :param text: the whole text; kept shortened to MAX_TEXT characters.
    :param problem: what is wrong or what was expected, a clause.
    :param position: where, in characters from 0; None for the whole text.
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
    """Refuse a text that is longer than its parser takes.

    :param limit: the longest text, in characters.
    :raises ParseError: if it is longer.
    """
    if len(text) > limit:
        raise ParseError(what, text, f"at most {limit} characters", limit)
