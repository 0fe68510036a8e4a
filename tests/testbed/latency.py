# SPDX-License-Identifier: Apache-2.0

"""A latency measurement that an emulated host can finish.

The tools, their checks and the certificate are the real ones. The figures
mean nothing, and every output says so.

``python -m tests.testbed.latency`` installs the tools.
"""

from tests.testbed import packages
from tests.testbed import paths

#: Packages of the tools and of the load.
PACKAGES = ("rt-tests", "rtla", "stress-ng")

CERTIFICATE = "/var/lib/sriov-rt-verify/latency-certificate.json"

#: ``sriov-rt`` with another profile ``quick``: five wake-ups a second. At
#: 5,000 an emulated CPU has less than half of its samples.
SRIOV_RT = """
from sriov_rt.cmd import main, verify_latency
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.profiles import Profile
import sys
quick = Profile("quick", "", (
    Step("cyclictest", 20, interval_us=200_000),
    Step("oslat", 5, priority=1),
))
verify_latency.PROFILES = {**verify_latency.PROFILES, "quick": quick}
sys.exit(main.main(sys.argv[1:]))
"""

#: How often a measurement is resumed until it earns a certificate: it is not
#: valid if an emulated CPU stalls and loses samples.
ATTEMPTS = 5

_LOWERED = """
import dataclasses, pathlib
from sriov_rt.host import latency
from sriov_rt.host.root import Root
from sriov_rt.verify import certificate
found = latency.read(Root("/"))
def lowered(each):
    return dataclasses.replace(each, max_us={bound_us})
certificate.write(
    dataclasses.replace(
        found,
        max_latency_us={bound_us},
        tools=tuple(map(lowered, found.tools)),
        cpus=tuple(map(lowered, found.cpus)),
    ),
    pathlib.Path("/"),
)
"""

#: Shell command that mounts the tracers' file system.
MOUNT_TRACEFS = (
    "mountpoint -q /sys/kernel/tracing || "
    "mount -t tracefs tracefs /sys/kernel/tracing"
)


def lowered(bound_us: int = 1) -> str:
    """Return Python that gives the certificate another bound.

    :param bound_us: the bound in µs.
    """
    return _LOWERED.format(bound_us=bound_us)


if __name__ == "__main__":
    directories = paths.Paths.from_environment()
    directories.make()
    packages.install(PACKAGES, directories.log / "apt.log")
