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


"""Names from outside, checked before anything else looks at them."""

import functools
import re

from sriov_rt.parse import numbers
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif.errors import NameInvalid

#: The longest name of an interface: IFNAMSIZ less its end (linux/if.h).
MAX_INTERFACE = 15

#: PID_MAX_LIMIT of a 64-bit kernel (include/linux/threads.h).
MAX_PID = 4 * 1024 * 1024

#: Before the process id of a namespace that has no name.
PID = "pid:"

#: First characters of an interface that got no name.
PREFIX = "srt"

_PORT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWNER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAMESPACE = re.compile(r"[A-Za-z0-9._@+-]{1,255}")
#: Printable ASCII but ``%`` (which the kernel numbers), ``/`` and ``:``.
_INTERFACE = re.compile(r"[!-$&-.0-9;-~]{1,15}")


def port(text: str) -> str:
    """Return a port's UUID if it is one, as Neutron writes it.

    :raises ParseError: if it is none.
    """
    if not _PORT.fullmatch(text):
        raise ParseError("port", text, "a UUID in lower case expected")
    return text


def network(text: str) -> str:
    """Return the UUID of a network if it is one, as Neutron writes it.

    :raises ParseError: if it is none.
    """
    if not _PORT.fullmatch(text):
        raise ParseError("network", text, "a UUID in lower case expected")
    return text


def owner(text: str) -> str:
    """Return an owner's name if it is one.

    :raises ParseError: if it is none.
    """
    if not _OWNER.fullmatch(text):
        raise ParseError(
            "owner", text, "1 to 64 of A-Z a-z 0-9 . _ and - expected"
        )
    return text


def interface(text: str) -> str:
    """Return an interface's name if it can be one (dev_valid_name).

    :raises NameInvalid: if it cannot.
    """
    if not _INTERFACE.fullmatch(text) or text in (".", ".."):
        shown = text if len(text) <= MAX_INTERFACE else f"{text[:15]}..."
        raise NameInvalid(repr(shown))
    return text


# The names that a host has are asked for at each look at it.
@functools.lru_cache(maxsize=1024)
def namespace(text: str) -> str:
    """Return a namespace's name, or ``pid:N``, if it can be one.

    :raises ParseError: if it cannot.
    """
    if text.startswith(PID):
        number = numbers.parse_int(
            text.removeprefix(PID), "process id", 1, MAX_PID
        )
        return f"{PID}{number}"
    if not _NAMESPACE.fullmatch(text) or text in (".", ".."):
        raise ParseError(
            "network namespace",
            text,
            "a name in /run/netns or pid:N expected",
        )
    return text


def default(port: str) -> str:
    """Return the name of a port's interface that was given none."""
    return PREFIX + port[:11]
