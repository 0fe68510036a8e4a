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

"""Command lines, parsed as the program does."""

import argparse
from collections.abc import Sequence

from sriov_rt.cmd import shell


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line.

    :param words: without the program's name.
    """
    program = shell.Shell()
    cls, name, rest = program.command_manager.find_command(list(words))
    return cls(program, None).get_parser(name).parse_args(rest)
