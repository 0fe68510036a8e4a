# SPDX-License-Identifier: Apache-2.0

"""Latency measurement inside a realtime guest or pod, next to its host's."""

import os
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt import codec
from sriov_rt import files
from sriov_rt.codec import Unknown
from sriov_rt.facts import certificate
from sriov_rt.facts.certificate import Certificate
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify.errors import CertificateUnusable
from sriov_rt.verify.errors import NotIsolated
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Measurement


def cpus_of(root: Root) -> Cpus:
    """Return the CPUs of a guest or pod that are measured.

    These are its isolated CPUs; if there are none, all its CPUs but the first.

    :raises NotIsolated: if that leaves none to measure from.
    """
    allowed = CpuSet(os.sched_getaffinity(0))
    online = values.cpu_set(root, "sys/devices/system/cpu/online")
    isolated = values.cpu_set(root, "sys/devices/system/cpu/isolated")
    # A pod sees the isolated CPUs of its host but may use only its own.
    if not isinstance(online, Unknown) and not isinstance(isolated, Unknown):
        inside = online - isolated
        if inside and isolated & online and allowed <= inside:
            return Cpus(isolated & online, allowed)
    if len(allowed) < 2:
        raise NotIsolated(
            "one CPU leaves none to measure from; give the guest two"
        )
    first = CpuSet((min(allowed),))
    return Cpus(allowed - first, first)


_GIVE_ONE = f"give a copy of a host's /{certificate.PATH}"


def host_certificate(path: pathlib.Path) -> Certificate:
    """Return a host's certificate.

    :raises CertificateUnusable: if the file is not one.
    """
    try:
        return certificate.from_bytes(files.read(path, certificate.MAX_FILE))
    except OSError as error:
        problem: Exception | str = error.strerror or error
    except codec.SchemaError as error:
        problem = error
    raise CertificateUnusable(f"{path}: {problem}", _GIVE_ONE)


def note(host: Certificate | None) -> str:
    """Return what a guest's figures are worth, as a sentence.

    The CPU flag "hypervisor" in the guest says nothing about its speed.

    :param host: its host's certificate; None where it is not known.
    """
    if host is None:
        doubt = "; if that one is emulated, they mean nothing"
    elif host.emulated:
        doubt = ", which is emulated: they mean nothing"
    else:
        doubt = ""
    return (
        "measured inside a guest: the figures hold for it on its present host "
        f"alone{doubt}"
    )


COLUMNS = ("Tool", "CPU", "Guest µs", "Host µs", "Samples")


def rows(
    found: Sequence[Measurement], host: Certificate | None
) -> Iterator[tuple[str, ...]]:
    """Yield a row with COLUMNS for each tool and CPU.

    :param host: its host's certificate; None where it is not known.
    """
    maxima = {each.tool: each.max_us for each in host.tools} if host else {}
    for run in found:
        there = str(maxima.get(run.tool, "-"))
        for cpu in run.cpus:
            yield (
                str(run.tool),
                str(cpu.cpu),
                str(cpu.max_us),
                there,
                str(cpu.samples),
            )
