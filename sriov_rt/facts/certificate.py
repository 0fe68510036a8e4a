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

"""Latency certificate of a host, as its file has it."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt import documents

#: Below the root of a host. The directory is root's, unlike the agent's.
PATH = "var/lib/sriov-rt-verify/latency-certificate.json"

SCHEMA_VERSION = 1

#: The longest file, in bytes: 1,024 CPUs take 150 kB.
MAX_FILE = 1024 * 1024

#: The greatest latency that is one, µs: a minute.
MAX_LATENCY_US = 60_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class CertifiedTool:
    """One measurement that a certificate stands on.

    :param version: what the tool says of itself.
    :param command: its command line, or the tracer's settings.
    :param duration_s: how long it measured.
    :param max_us: the worst latency of all CPUs.
    """

    tool: str
    version: str
    command: str
    duration_s: float
    max_us: int


@dataclasses.dataclass(frozen=True, slots=True)
class CertifiedCpu:
    """What was measured of one CPU, by all tools.

    :param max_us: the worst latency.
    :param samples: of the tool that found it.
    :param once_in_s: a worse one is expected less than once in that time, at
        95 %.
    :param estimate_us: of a run as long, by extreme values; None where the
        conditions of the estimate do not hold.
    :param estimate_refused: which of them, one clause; empty with an
        estimate, and in certificates of versions that did not write it down.
    """

    cpu: int
    max_us: int
    samples: int
    once_in_s: float
    estimate_us: int | None
    estimate_refused: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Certificate:
    """What was measured of a host, and what that hangs on.

    :param host: name of the host, for people.
    :param max_latency_us: the worst latency of all CPUs and tools, µs.
    :param kernel: release of the kernel that it was measured on.
    :param issued_at: Unix time in seconds.
    :param expires_at: likewise; from then on it counts no more.
    :param load: the load that it was measured under.
    :param emulated: the host is a virtual machine itself: the figures say
        nothing of any hardware.
    :param conditions: what it hangs on, by name (host.conditions).
    :param withdrawn: why it counts no more, though it has not expired; empty
        for one that counts.
    :param digest: SHA-256 of all the rest, hexadecimal.
    """

    host: str
    max_latency_us: int
    kernel: str
    issued_at: float
    expires_at: float
    profile: str
    load: str
    emulated: bool
    tools: tuple[CertifiedTool, ...]
    cpus: tuple[CertifiedCpu, ...]
    conditions: Mapping[str, str]
    withdrawn: str = ""
    digest: str = ""


def to_bytes(certificate: Certificate) -> bytes:
    """Return the file of a certificate, its digest filled in."""
    found = codec.to_plain(certificate)
    found["schema"] = SCHEMA_VERSION
    found["digest"] = _digest(found)
    return (json.dumps(found, indent=2, sort_keys=True) + "\n").encode()


def from_bytes(data: bytes) -> Certificate:
    """Return the certificate of a file.

    :raises SchemaError: if it is not one, or is not as it was written.
    """
    found = documents.load(Certificate, data, MAX_FILE, SCHEMA_VERSION)
    if found.digest != _digest(documents.plain(data, MAX_FILE)):
        raise codec.SchemaError("digest", "the file was edited")
    if not 0 <= found.max_latency_us <= MAX_LATENCY_US:
        raise codec.SchemaError(
            "max_latency_us",
            f"a whole number from 0 to {MAX_LATENCY_US} expected",
        )
    return found


def _digest(plain: Mapping[str, object]) -> str:
    rest = {key: each for key, each in plain.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
