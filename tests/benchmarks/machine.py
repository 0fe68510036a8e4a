# SPDX-License-Identifier: Apache-2.0

"""The machine that benchmarks of VFs run in, booted once for all of them."""

import atexit
import dataclasses
import functools
import json
import sys
from typing import Any

from tests.benchmarks import inside
from tests.testbed import errors
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import RtVm
from tests.testbed.rtvm import netdevsim

#: What is told of each figure from inside.
NOTE = (
    "in a machine whose CPUs and NICs QEMU emulates: the figures mean "
    "nothing, their ratios do"
)

#: Beside what a machine needs itself.
PACKAGES = ("iperf3", "iproute2", "lxc", "util-linux", *netdevsim.PACKAGES)

#: Seconds that a benchmark may take inside, on a busy machine.
PATIENCE = 600.0

#: Not realtime: iperf3 and pktgen are to have both CPUs. Seed 001 boots with
#: this IOMMU; without ``iommu=pt`` its emulation costs more than all else.
MACHINE = dataclasses.replace(
    Machine.ordinary("bench-1", 3),
    arguments=("intel_iommu=on", "iommu=pt"),
    cpus=2,
    hugepages=0,
    vfs=7,
    libvirt=False,
)


def place() -> paths.Paths:
    """Return directories that no test uses at the same time."""
    shared = paths.Paths.from_environment()
    state = shared.state.with_name(f"{shared.state.name}-bench")
    return paths.Paths(cache=shared.cache, state=state)


@functools.cache
def machine() -> RtVm:
    """Boot it, with a netdevsim's driver, and end it with the process."""
    directories = place()
    directories.make()
    wanted = (*RtVm.packages(), *PACKAGES)
    packages.install(wanted, directories.log / "apt.log")
    vm = RtVm(directories, MACHINE)
    vm.stop()
    atexit.register(vm.stop)
    module = netdevsim.module(vm.prepare(), directories.cache)
    vm.start()
    vm.wait_ready(Progress(sys.stderr).say)
    vm.run(
        (
            *("sh", "-ec"),
            "mount -t debugfs debugfs /sys/kernel/debug\n"
            f"modprobe psample; insmod {module}",
        )
    )
    return vm


def measure(program: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the rows that a program of the package ``inside`` prints.

    :param program: its name.
    :param arguments: of it.
    :raises errors.TestbedError: if it fails, with what it complained about.
    """
    result = machine().run(
        (sys.executable, "-m", f"{inside.__name__}.{program}", *arguments),
        timeout=PATIENCE,
        directory=str(paths.CHECKOUT),
    )
    sys.stderr.write(result.complaint)
    try:
        rows: list[dict[str, Any]] = json.loads(result.text)
    except ValueError as error:
        raise errors.TestbedError(
            f"{program} printed no rows: {result.text!r}"
        ) from error
    return rows
