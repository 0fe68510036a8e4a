# SPDX-License-Identifier: Apache-2.0

"""Parts of the periodic run: ``tools/test --periodic PART``.

Each part passes alone on the machine in at most forty minutes; what takes
longer is split. Each test that is left to the periodic run is in a part.
"""

import dataclasses
from collections.abc import Sequence

from tests.testbed import errors


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the periodic run.

    :param name: its name in the command.
    :param what: what it shows.
    :param runner: a runner of tests/run.py.
    :param only: patterns for names of tests or benchmarks; all of the runner
        by default.
    """

    name: str
    what: str
    runner: str
    only: tuple[str, ...] = ()


def _modules(room: str, *names: str) -> tuple[str, ...]:
    """Return patterns for modules or packages of a room of tests."""
    return tuple(rf"^tests\.{room}\.{each}\." for each in names)


PARTS = (
    Part("unit", "recipes, pictures, more of the fuzzing", "unit"),
    Part(
        "releases",
        "Nova, Neutron and Magnum of all releases, whole",
        "functional",
        (
            *_modules("functional", "nova.test_contracts"),
            *_modules("functional", "neutron", "magnum"),
            *_modules("functional", "kubernetes.test_contracts"),
        ),
    ),
    Part(
        "deployment",
        "Kolla, OpenStack-Ansible, operators, systemd, the release's files",
        "functional",
        (
            *_modules("functional", "deployment", "systemd", "tuning"),
            *_modules("functional", "test_packaging"),
        ),
    ),
    Part(
        "functional",
        "hosts in namespaces, brokers, managers: long waits, repetition",
        "functional",
        (
            *_modules("functional", "agent", "guest", "kubevirt", "libvirt"),
            *_modules("functional", "scheduler", "verify", "vif", "vdsm"),
        ),
    ),
    Part(
        "kubernetes",
        "pods on a node, Onload's walk-through, a node that joins, many nodes",
        "kubernetes",
    ),
    Part("packages", "deb and rpm installed, the agent's image", "packages"),
    Part("debian13", "unit and functional with Python 3.13", "debian13"),
    Part(
        "vm-ports",
        "ports that die, hide and attack, of every kind",
        "vm",
        (
            *_modules("vm", "test_vif_kill", "test_vif_kinds", "test_hidden"),
            *_modules("vm", "test_vf_attacks", "test_lxc"),
        ),
    ),
    Part(
        "vm-reload",
        "a PF that goes and comes back, by udev's rule, while a ping runs",
        "vm",
        _modules("vm", "test_vif_reload"),
    ),
    Part(
        "vm-vfs",
        "VFs: attributes, whole devices, pods, guests, KubeVirt",
        "vm",
        (
            *_modules("vm", "test_vf", "test_vf_netdevsim", "test_device"),
            *_modules("vm", "test_pod_vf", "test_kubevirt", "test_guest"),
            *_modules("vm", "test_libvirt", "test_vf_counters"),
        ),
    ),
    Part(
        "vm-mixes",
        "a VF that two holders want, each mix of two by its frames",
        "vm",
        _modules("vm", "test_vf_mixes"),
    ),
    Part(
        "vm-hosts",
        "what a host is, its remedies from boot to boot",
        "vm",
        (
            *_modules("vm", "test_host", "test_host_cpus", "test_machine"),
            *_modules("vm", "test_remedies", "test_tuning"),
            *_modules("vm", "test_occupancy", "test_roll"),
        ),
    ),
    Part(
        "vm-verify",
        "measurements, and what withdraws a certificate",
        "vm",
        _modules("vm", "test_verify"),
    ),
    Part(
        "vm-peers",
        "two hosts on one wire, Onload's stand-in between them",
        "vm",
        _modules("vm", "test_pair", "test_onload"),
    ),
    Part(
        "cloud-servers",
        "what servers and schedulers see, and certificates",
        "cloud",
        (
            *_modules("cloud", "test_demo", "test_flavors", "test_guest"),
            *_modules("cloud", "test_placement", "test_refusal"),
            *_modules("cloud", "test_scheduler"),
            *_modules("cloud", "test_certificate"),
        ),
    ),
    Part(
        "cloud-ports",
        "facts, ports, and Onload's stand-in in containers",
        "cloud",
        _modules("cloud", "test_facts", "test_vif", "test_onload"),
    ),
    Part(
        "cloud-drifts",
        "thirteen drifts of a host, each seen and mended",
        "cloud",
        _modules("cloud", "test_drifts"),
    ),
    Part(
        "cluster",
        "NFD's labels in a cloud, and a cluster by Magnum",
        "cluster",
        _modules("cluster", "test_labels", "test_magnum"),
    ),
    Part(
        "cluster-worker",
        "a worker of Kubernetes that is a server of Nova's, and joins",
        "cluster",
        _modules("cluster", "test_worker"),
    ),
    Part(
        "cloud-migration",
        "realtime servers that migrate there and back",
        "cloud",
        _modules("cloud", "test_migration"),
    ),
    Part(
        "cloud-day-two",
        "passwords that are rotated, a host that is drained and replaced",
        "cloud",
        _modules("cloud", "test_day_two"),
    ),
    Part(
        "cloud-upgrade-scheduler",
        "a new nova-scheduler in a cloud of the release before",
        "cloud",
        _modules("cloud", "test_rolling.TestUpgradeOfScheduler"),
    ),
    Part(
        "cloud-upgrade",
        "a cloud that is upgraded host after host",
        "cloud",
        _modules("cloud", "test_rolling.TestUpgrade"),
    ),
    Part(
        "cloud-rollback-services",
        "a control plane that is rolled back",
        "cloud",
        _modules("cloud", "test_rolling.TestRollbackOfServices"),
    ),
    Part(
        "cloud-rollback",
        "hosts that are rolled back, the control plane before them",
        "cloud",
        _modules("cloud", "test_rolling.TestRollback"),
    ),
    Part(
        "cloud-tempest",
        "Tempest's tests with sriov-rt and without, and of containers",
        "cloud",
        _modules("cloud", "test_tempest"),
    ),
    Part("tempest", "all tests of the Tempest plugin", "tempest"),
    Part(
        "bench-scheduler",
        "what a request costs in nova-scheduler, to 10,000 hosts",
        "benchmarks",
        ("bench_scheduler", "bench_filter", "bench_intake"),
    ),
    Part(
        "bench-hosts",
        "agents, hooks, commands, and 1,000 hosts on one queue",
        "benchmarks",
        (
            *("bench_agent", "bench_audit", "bench_guest", "bench_hooks"),
            "bench_occupancy",
            *("bench_kubevirt", "bench_labels", "bench_selector"),
            *("bench_start", "bench_scale"),
        ),
    ),
    Part(
        "bench-ports",
        "ports and VFs beside their peers, and the data path",
        "benchmarks",
        ("bench_vif", "bench_vf", "bench_path"),
    ),
)


def named(names: Sequence[str]) -> Sequence[Part]:
    """Return parts by their names; all if there are none.

    :raises errors.TestbedError: if there is no such part.
    """
    known = {each.name: each for each in PARTS}
    if unknown := set(names) - set(known):
        raise errors.TestbedError(f"no part {', '.join(sorted(unknown))}")
    return [known[each] for each in names] if names else PARTS
