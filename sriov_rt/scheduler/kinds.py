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

"""Kinds of host: equal facts are kept once and decided on once."""

import dataclasses
import hashlib
import itertools
import json
import math
import sys
import types
import weakref
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import decide
from sriov_rt import facts as host_facts
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.facts import LabelFacts
from sriov_rt.reason import Reason
from sriov_rt.request import Request

#: A decision at this time meets no certificate that has expired.
_BEFORE_ALL_TIME = -math.inf


class Kind:
    """What hosts of one build have in common.

    :param number: its name among all kinds that this process ever saw.
    :param facts: theirs, without what names one machine.
    """

    __slots__ = ("__weakref__", "facts", "number")

    def __init__(self, number: int, facts: HostFacts) -> None:
        self.number = number
        self.facts = facts

    def passes_until(self, request: Request) -> float:
        """Return the Unix time from which these hosts satisfy no more.

        Minus infinity if they never do, infinity if time changes nothing:
        all that a decision takes from time is when a certificate expires.
        """
        view = decide.View(now=_BEFORE_ALL_TIME)
        if not decide.satisfies(request, self.facts, view):
            return -math.inf
        certificate = self.facts.latency.certificate
        if (
            request.max_latency_us is None
            or certificate is None
            or isinstance(certificate, Unknown)
        ):
            return math.inf
        return certificate.expires_at

    def why_not(
        self, request: Request, view: decide.View
    ) -> tuple[Reason, ...]:
        """Return every Reason why these hosts do not satisfy a request."""
        return decide.why_not(request, self.facts, view)


class Kinds:
    """The kinds that are in use, each kept once. Not safe for threads.

    Kinds differ in few of their parts (a latency certificate, a label), so
    that equal parts are kept once as well.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._kinds: weakref.WeakValueDictionary[bytes, Kind] = (
            weakref.WeakValueDictionary()
        )
        self._parts: weakref.WeakValueDictionary[bytes, Any] = (
            weakref.WeakValueDictionary()
        )

    def __len__(self) -> int:
        return len(self._kinds)

    def of(self, facts: HostFacts) -> Kind:
        """Return the kind of a host."""
        facts = host_facts.anonymous(facts)
        name, parts = b"", {}
        for part in host_facts.PARTS:
            digest, parts[part] = self._share(getattr(facts, part))
            name += digest
        name = hashlib.sha256(name).digest()
        kind = self._kinds.get(name)
        if kind is None:
            kind = Kind(
                next(self._numbers),
                HostFacts(
                    host=facts.host,
                    node=facts.node,
                    observed_at=facts.observed_at,
                    **parts,
                ),
            )
            self._kinds[name] = kind
        return kind

    def _share(self, part: Any) -> tuple[bytes, Any]:
        plain = codec.to_plain(part)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        name = type(part).__name__
        digest = hashlib.sha256(f"{name} {text}".encode()).digest()
        known = self._parts.get(digest)
        if known is None:
            known = self._parts[digest] = _lean(part)
        return digest, known


def _lean(part: Any) -> Any:
    # Each document brings the names of its labels anew, some fifty; they
    # are the same on all hosts, and would be most of what a host takes.
    if not isinstance(part, LabelFacts):
        return part
    return dataclasses.replace(
        part, values=_interned(part.values), sources=_interned(part.sources)
    )


def _interned(
    texts: Mapping[str, str] | Unknown,
) -> Mapping[str, str] | Unknown:
    if isinstance(texts, Unknown):
        return texts
    return types.MappingProxyType(
        {sys.intern(key): sys.intern(each) for key, each in texts.items()}
    )
