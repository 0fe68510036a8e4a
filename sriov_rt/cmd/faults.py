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

"""Messages on standard error, and exit codes after a fault."""

import codecs
import errno
import io
import logging
import os
import sys

from sriov_rt import exceptions

#: Exit code for input or an environment that the command cannot work with.
EXIT_ERROR = 2

#: Exit code after Ctrl-C: 128 and the number of SIGINT, as a shell has it.
EXIT_INTERRUPTED = 130

#: What a write to a full or broken disk, or to no file at all, says.
_UNWRITABLE = frozenset(
    {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
)

#: What is printed for a character that a locale does not have.
_PLAIN = {"µ": "u", "…": "...", "×": "x", "–": "-"}
_ERRORS = "sriov_rt_plain"


def say(text: str) -> None:
    """Print a line where it does not mix with the result."""
    print(f"sriov-rt: {text}", file=sys.stderr, flush=True)


def warn_unless_root(root: str = "/") -> None:
    """Print that only root may read a host, if another user tries to.

    :param root: the host's root directory; a copy belongs to who made it.
    """
    if root == "/" and os.geteuid() != 0:
        say("run as root: what only root may read is unknown otherwise")


def report(error: BaseException) -> int:
    """Print what went wrong, and return the exit code for it."""
    if isinstance(error, KeyboardInterrupt):
        say("interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of a pipe has seen enough; that is no fault of ours.
        drop_output()
    elif isinstance(error, RecursionError):
        say("error: the input is nested too deep")
    elif isinstance(error, (exceptions.SriovRtError, ValueError)):
        say(f"error: {error}")
    elif not isinstance(error, OSError):
        say(
            f"error: {type(error).__name__}: {error}; 'sriov-rt --debug' "
            "prints the traceback for a bug report"
        )
    elif error.filename is None and error.errno in _UNWRITABLE:
        say(f"error: the output cannot be written: {error.strerror}")
        drop_output()
    else:
        say(f"error: {error}")
    return EXIT_ERROR


def drop_output() -> None:
    """Let the interpreter's end not fail by what could not be written."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def log_warnings(logger: logging.Logger, level: int = logging.WARNING) -> None:
    """Print what is logged, in place of what was printed before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler.setLevel(level)
    logger.handlers = [handler]


def print_anything() -> None:
    """Let the output take every character, whatever the locale is."""
    codecs.register_error(_ERRORS, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace what cannot be encoded; a handler of :mod:`codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = "".join(
        _PLAIN.get(each) or each.encode("ascii", "backslashreplace").decode()
        for each in text
    )
    return plain, error.end
