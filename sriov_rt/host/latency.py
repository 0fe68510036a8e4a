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

"""The host's latency certificate, from ``/var/lib/sriov-rt``.

The file is a JSON object, written by who measured the host::

    {"max_latency_us": 18, "kernel": "6.1.0-44-rt-amd64",
     "expires_at": 1798761600}

``max_latency_us`` is the worst latency seen, a whole number of µs;
``kernel`` the release that was measured (``uname -r``); ``expires_at`` Unix
time in seconds. Further keys are passed over.
"""

import json

from sriov_rt import codec
from sriov_rt.codec import Unknown
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import LatencyFacts
from sriov_rt.host.root import Root

CERTIFICATE = "var/lib/sriov-rt/latency-certificate.json"

#: The greatest latency that is one, µs: a minute.
MAX_LATENCY_US = 60_000_000


def observe(root: Root) -> LatencyFacts:
    """Return the certificate; None where there is none."""
    return LatencyFacts(_certificate(root))


def _certificate(root: Root) -> LatencyCertificate | None | Unknown:
    text = root.read_text(CERTIFICATE)
    if isinstance(text, Unknown):
        return None if root.exists(CERTIFICATE) is False else text
    try:
        found = codec.from_plain(LatencyCertificate, json.loads(text))
    except codec.SchemaError as error:
        return Unknown(f"/{CERTIFICATE}: {error}")
    except (ValueError, RecursionError) as error:
        return Unknown(f"/{CERTIFICATE}: not JSON: {error}")
    if not 0 <= found.max_latency_us <= MAX_LATENCY_US:
        return Unknown(
            f"/{CERTIFICATE}: max_latency_us: a whole number from 0 to "
            f"{MAX_LATENCY_US} expected"
        )
    return found
