# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt-vf``: the CNI plug-in that keeps VFs of pods at their baseline.

A starting pod waits for it, so the code that acts on VFs is imported only if
there is a VF to act on.
"""

import functools
import json
import logging
import os
import sys
from collections.abc import Callable
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

from sriov_rt import exceptions
from sriov_rt.cmd import faults
from sriov_rt.cni import protocol
from sriov_rt.cni.vf_baseline import Baseline
from sriov_rt.nic.errors import Locked
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import Tenancies

if TYPE_CHECKING:
    from sriov_rt.nic.vfs import Vfs

LOG = logging.getLogger("sriov_rt")


def main() -> int:
    """Run one call of the container runtime and return the exit code."""
    faults.print_anything()
    # The runtime logs standard error.
    faults.log_warnings(LOG, logging.INFO)
    LOG.setLevel(logging.INFO)
    try:
        given = sys.stdin.buffer.read(protocol.MAX_CONFIGURATION + 1)
    except (AttributeError, OSError):
        given = b""
    baseline = Baseline(Tenancies(), _vfs)
    code, answer = run(baseline, os.environ, given)
    if answer is not None:
        print(json.dumps(answer), flush=True)
    return code


def _vfs() -> "Vfs":
    # Imported here: it takes long, and most calls find nothing to do.
    from sriov_rt.nic.vfs import Vfs
    from sriov_rt.vif import tenants

    return Vfs.of_host(functools.partial(tenants.uses, guests=True), Kind.POD)


def run(
    baseline: Baseline, environment: Mapping[str, str], given: bytes
) -> tuple[int, dict[str, Any] | None]:
    """Return exit code and answer of one call.

    :param environment: environment of the process.
    :param given: content of its standard input.
    """
    version = protocol.VERSIONS[-1]
    try:
        request = protocol.parse(environment, given)
        version = request.version
        return 0, _done(baseline, request)
    except protocol.CniError as error:
        problem = error
    except Locked as error:
        problem = protocol.CniError(protocol.TRY_AGAIN, str(error))
    except (exceptions.SriovRtError, OSError) as error:
        problem = protocol.CniError(
            protocol.IO_FAILURE, exceptions.plain(error)
        )
    except Exception as error:
        # A runtime regards output that is not JSON as a crash.
        LOG.debug("", exc_info=True)
        text = f"{type(error).__name__}: {error}; report this as a bug"
        problem = protocol.CniError(protocol.IO_FAILURE, text)
    return 1, protocol.failure(version, problem)


def _done(
    baseline: Baseline, request: protocol.Request
) -> dict[str, Any] | None:
    """Carry out a request; return the answer, if there is one."""
    if request.command == "VERSION":
        return protocol.versions(request)
    if request.command == "ADD":
        baseline.add(request)
        return protocol.result(request)
    verbs: Mapping[str, Callable[[], None]] = {
        "DEL": lambda: baseline.delete(request),
        "CHECK": lambda: baseline.check(request),
        "GC": lambda: baseline.collect(request),
        "STATUS": baseline.status,
    }
    verbs[request.command]()
    return None


if __name__ == "__main__":
    sys.exit(main())
