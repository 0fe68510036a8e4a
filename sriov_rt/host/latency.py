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

"""The host's latency certificate, which ``sriov-rt verify latency`` writes.

It counts if root wrote it and nobody has edited it since, and as long as all
that it hangs on is as it was measured (``conditions``).
"""

import os
import stat
import time

from sriov_rt import codec
from sriov_rt.codec import Unknown
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import LatencyFacts
from sriov_rt.facts import certificate
from sriov_rt.host import conditions
from sriov_rt.host.root import Root

CERTIFICATE = certificate.PATH

#: How far ahead of the host's clock a certificate may be, in seconds: NTP may
#: have set the clock back a little since.
MAX_AHEAD_S = 300.0

#: How much of a condition a sentence shows, in characters.
_SHOWN = 60


def observe(root: Root) -> LatencyFacts:
    """Return the certificate; None where there is none."""
    return LatencyFacts(_certificate(root))


def read(root: Root) -> certificate.Certificate | None | Unknown:
    """Return the whole certificate, whether it counts or not."""
    source = root.open_file(CERTIFICATE)
    if isinstance(source, Unknown):
        return None if root.exists(CERTIFICATE) is False else source
    with source:
        status = os.fstat(source.fileno())
        if status.st_uid != root.path.stat().st_uid:
            return _refused("not root's file; remove it")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return _refused("others than root may write it; remove it")
        data = source.read(certificate.MAX_FILE + 1) or b""
    try:
        return certificate.from_bytes(data)
    except codec.SchemaError as error:
        return _refused(str(error))


def withdrawn(found: certificate.Certificate, root: Root) -> str:
    """Return why a certificate counts no more; empty if it counts."""
    if found.withdrawn:
        return found.withdrawn
    if found.issued_at > time.time() + MAX_AHEAD_S:
        return "it is dated ahead of the host's clock"
    return "; ".join(
        _change(*each) for each in conditions.changed(found.conditions, root)
    )


def _certificate(root: Root) -> LatencyCertificate | None | Unknown:
    found = read(root)
    if found is None or isinstance(found, Unknown):
        return found
    return LatencyCertificate(
        max_latency_us=found.max_latency_us,
        kernel=found.kernel,
        expires_at=found.expires_at,
        withdrawn=withdrawn(found, root),
        emulated=found.emulated,
    )


def _refused(problem: str) -> Unknown:
    return Unknown(f"/{CERTIFICATE}: {problem}")


def _change(name: str, then: str, now: str) -> str:
    if max(len(then), len(now)) > _SHOWN:
        # A kernel command line: the words that differ, if any does.
        lost, came = _words_beside(then, now), _words_beside(now, then)
        if lost or came:
            then, now = lost or conditions.ABSENT, came or conditions.ABSENT
    return f"{name} changed from '{_short(then)}' to '{_short(now)}'"


def _words_beside(text: str, other: str) -> str:
    """Return the words of a text that another has not."""
    known = set(other.split())
    return " ".join(word for word in text.split() if word not in known)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
