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

"""Values of arguments, read with errors that argparse prints."""

import argparse
import contextlib
from collections.abc import Callable
from typing import TypeVar

from sriov_rt import exceptions
from sriov_rt.parse import numbers

T = TypeVar("T")


def reader(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser as argparse's ``type`` takes it.

    :param parse: raises an error of ours for what it can't read.
    """

    def read(text: str) -> T:
        try:
            return parse(text)
        except exceptions.SriovRtError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return the reader of a whole number.

    :param least: the least that it may be.
    :param most: the greatest.
    """
    return reader(lambda text: numbers.parse_int(text, "number", least, most))


def seconds(most: int) -> Callable[[str], float]:
    """Return the reader of seconds, whole or not.

    :param most: how many there may be; the least is 0.
    """

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            found = float(text)
            if 0 <= found <= most:
                return found
        raise argparse.ArgumentTypeError(f"0 to {most} seconds expected")

    return read
