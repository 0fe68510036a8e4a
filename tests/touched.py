# SPDX-License-Identifier: Apache-2.0

"""Tests that a change needs: ``tools/test --touched``.

``tools/test quick`` has all unit tests, lint and types. :data:`NEEDS` has the
other tests that show whether a file still works. A file that matches none of
its rows is an error.
"""

import ast
import dataclasses
import pathlib
import re
import subprocess
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from tests import parts
from tests.testbed import errors
from tests.testbed import paths

_SCHEDULING = ("functional.scheduler", "functional.nova.test_scheduling")
_GUESTS = (
    "functional.guest",
    "functional.libvirt",
    "functional.nova.test_guest",
    "functional.vdsm",
    "functional.kubevirt",
    "cloud.test_guest",
    "vm.test_guest",
)
_VFS = (
    "functional.nic",
    "vm.test_vf",
    "vm.test_vf_attacks",
    "vm.test_vf_counters",
)
_PORTS = (
    "functional.vif",
    "functional.host.test_container",
    "functional.nova.test_vif",
    "functional.nova.test_vif_container",
    "vm.test_vif_kill",
    "vm.test_vif_kinds",
    "vm.test_hidden",
    "vm.test_vf_attacks",
)
_PODS = (
    "functional.kubernetes",
    "kubernetes.test_labels",
    "kubernetes.test_onload",
    "kubernetes.test_policies",
    "kubernetes.test_node",
)
_HOSTS = (
    "functional.host",
    "vm.test_host",
    "vm.test_host_cpus",
    "vm.test_occupancy",
)
_MACHINE = ("vm.test_machine", "vm.test_vf")
_CLOUD = ("cloud.test_demo", "cloud.test_guest", "cloud.test_placement")
_NONE: tuple[str, ...] = ()

#: Tests that a change of a file or directory needs besides the unit tests:
#: runners, and modules and packages of their tests. The row with the longest
#: path is used; each room of the package has one.
NEEDS: Mapping[str, tuple[str, ...]] = {
    "sriov_rt/__init__.py": _NONE,
    "sriov_rt/py.typed": _NONE,
    "sriov_rt/agent": (
        "functional.agent",
        "functional.scheduler",
        "kubernetes.test_labels",
        "cloud.test_facts",
        "cloud.test_demo",
    ),
    "sriov_rt/cmd": ("functional.cmd", "functional.host", "vm.test_host"),
    "sriov_rt/cni": ("functional.cmd", "vm.test_pod_vf", "vm.test_kubevirt"),
    "sriov_rt/codec.py": ("functional.scheduler", "functional.agent"),
    "sriov_rt/config.py": ("functional.agent", "functional.vif"),
    "sriov_rt/deadline.py": ("functional.vif", "functional.nova.test_vif"),
    "sriov_rt/decide": (*_SCHEDULING, "cloud.test_flavors", "vm.test_host"),
    "sriov_rt/devices": (
        "functional.nova.test_one_time_use",
        "vm.test_device",
    ),
    "sriov_rt/documents.py": ("functional.agent", "functional.vif"),
    "sriov_rt/entry_points.py": ("functional.agent", "functional.nic"),
    "sriov_rt/exceptions.py": _NONE,
    "sriov_rt/facts": (*_SCHEDULING, "functional.agent", "vm.test_host"),
    "sriov_rt/files.py": ("functional.vif", "functional.agent"),
    "sriov_rt/guest": _GUESTS,
    "sriov_rt/host": (*_HOSTS, "functional.agent"),
    "sriov_rt/kernel": (*_VFS, *_PORTS),
    "sriov_rt/kubernetes": (
        "functional.kubernetes",
        "kubernetes.test_labels",
        "kubernetes.test_node",
    ),
    "sriov_rt/kubevirt": (
        "functional.kubevirt",
        "kubernetes.test_kubevirt",
        "vm.test_kubevirt",
    ),
    "sriov_rt/labels": ("kubernetes.test_labels", "cluster.test_labels"),
    "sriov_rt/libvirt": ("functional.libvirt", "vm.test_libvirt"),
    "sriov_rt/magnum": (
        "functional.magnum",
        "kubernetes.test_magnum",
        "kubernetes.test_worker",
        "cluster.test_magnum",
        "cluster.test_worker",
    ),
    "sriov_rt/neutron": ("functional.neutron", "vm.test_vf", "cloud.test_vif"),
    "sriov_rt/nic": (*_VFS, "vm.test_vif_kill", "vm.test_pod_vf"),
    "sriov_rt/nova": ("functional.nova", *_SCHEDULING, *_CLOUD),
    "sriov_rt/onload": (
        "functional.onload",
        "functional.nova.test_onload",
        "functional.nova.test_onload_container",
        "kubernetes.test_onload",
        "vm.test_onload",
        "cloud.test_onload",
    ),
    "sriov_rt/opts.py": ("docs",),
    "sriov_rt/parse": (*_SCHEDULING, "functional.host", "vm.test_host"),
    "sriov_rt/placement": (
        "functional.agent.test_placement",
        "functional.nova.test_one_time_use",
        "functional.magnum",
        "cloud.test_placement",
    ),
    "sriov_rt/pods": _PODS,
    "sriov_rt/reason.py": (*_SCHEDULING, "docs"),
    "sriov_rt/request": (*_SCHEDULING, "functional.nova", "docs"),
    "sriov_rt/scheduler": (
        *_SCHEDULING,
        "cloud.test_flavors",
        "cloud.test_placement",
        "cloud.test_scheduler",
    ),
    "sriov_rt/service": (
        "functional.agent",
        "functional.neutron",
        "functional.scheduler",
    ),
    "sriov_rt/tuning": ("functional.tuning", "vm.test_tuning"),
    "sriov_rt/vdsm": ("functional.vdsm", "functional.guest"),
    "sriov_rt/verify": (
        "functional.verify",
        "vm.test_verify",
        "vm.test_roll",
        "cloud.test_certificate",
    ),
    "sriov_rt/vif": (*_PORTS, "functional.neutron", "cloud.test_vif"),
    "sriov_rt_tempest_plugin": ("tempest",),
    "shim": ("functional.nova.test_driver", "cloud.test_guest"),
    # Files that are shipped for others to deploy.
    "etc": ("functional.test_packaging",),
    "etc/kolla": ("functional.deployment",),
    "etc/kubernetes": _PODS,
    "etc/kubevirt": ("functional.kubevirt", "kubernetes.test_kubevirt"),
    "etc/libvirt": ("functional.libvirt", "vm.test_libvirt"),
    "etc/openstack-helm": ("kubernetes.test_openstack_helm",),
    "etc/openstack-k8s-operators": ("functional.deployment",),
    "etc/openstack_deploy": ("functional.deployment",),
    "etc/grafana": ("functional.agent.test_prometheus",),
    "etc/prometheus": ("functional.agent.test_prometheus",),
    "etc/sos": ("functional.host.test_sos", "packages"),
    "etc/systemd": ("functional.systemd", "packages"),
    "etc/udev": ("functional.systemd.test_rules", "packages"),
    "etc/vdsm": ("functional.vdsm",),
    "debian": ("packages",),
    "rpm": ("packages",),
    "devstack": _CLOUD,
    # Requirements and packaging.
    "pyproject.toml": ("functional.test_packaging", "packages", "docs"),
    "requirements.txt": ("functional.test_packaging", "packages"),
    "test-requirements.txt": _NONE,
    "setup.cfg": ("functional.test_packaging",),
    "setup.py": ("functional.test_packaging",),
    "tests/constraints": (
        "functional.test_packaging",
        "functional.nova.test_contracts",
        "functional.neutron.test_contracts",
    ),
    "tools": ("functional.test_packaging",),
    "tools/test": _NONE,
    "tools/demo": _NONE,
    # Documentation.
    "doc": ("docs",),
    "doc/source/walkthroughs/kata.rst": ("docs", "functional.verify"),
    "doc/source/walkthroughs/lxc.rst": ("docs", "vm.test_lxc"),
    "doc/source/walkthroughs/onload.rst": ("docs", "kubernetes.test_node"),
    "doc/source/walkthroughs/ovirt.rst": ("docs", "functional.vdsm"),
    "releasenotes": _NONE,
    "README.rst": ("docs",),
    "LICENSE": _NONE,
    # Files for work on the project.
    ".ci": _NONE,
    ".gitignore": _NONE,
    ".stestr.conf": _NONE,
    ".zuul.yaml": _NONE,
    "tox.ini": _NONE,
    # The tests and their runners; a test module needs itself.
    "tests": _NONE,
    "tests/benchmarks": ("functional.scheduler.test_scale",),
    "tests/magnum": ("functional.magnum", "kubernetes.test_magnum"),
    "tests/testbed": (*_CLOUD, *_MACHINE),
    "tests/testbed/kube": ("kubernetes",),
    "tests/testbed/kubevirt": ("functional.kubevirt",),
    "tests/testbed/rtvm": (*_MACHINE, "cloud.test_demo"),
    "tests/testbed/tempest_config.py": ("tempest",),
    "tests/testbed/tempest_run.py": ("tempest",),
    "tests/testbed/tempest_tests.py": ("tempest",),
}

#: Rooms of tests that are run by a runner of the same name.
_ROOMS = (
    *("functional", "kubernetes", "packages", "vm", "cloud"),
    "cluster",
)

#: Rooms that are left to the periodic run.
_LATER = ("cluster",)

#: Default revisions from which the change began.
_UPSTREAMS = ("@{upstream}", "origin/HEAD", "origin/main", "main")


@dataclasses.dataclass(frozen=True)
class Found:
    """Tests that a change needs.

    :param runners: patterns for names of tests, by runner.
    :param left_out: what is not run.
    """

    runners: Mapping[str, Sequence[str]]
    left_out: Sequence[str]


def since(revision: str) -> Found:
    """Return the tests needed by the changes since a revision.

    :param revision: git's revision; "" for where the branch left its upstream
        or main, or for the last commit if it has not.
    :raises errors.TestbedError: if git does not know it, or a file has no
        row.
    """
    files = changed(revision or _beginning())
    return needed({name for each in files for name in of_file(each)})


def changed(revision: str) -> Sequence[str]:
    """Return the files that differ from a revision, including new ones."""
    differ = _git("diff", "--name-only", "--no-renames", "-z", revision)
    new = _git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({*differ.split("\0"), *new.split("\0")} - {""})


def of_file(name: str) -> Sequence[str]:
    """Return what a file needs, as in :data:`NEEDS`.

    :param name: path from the top of the checkout.
    :raises errors.TestbedError: if it has no row.
    """
    path = pathlib.PurePosixPath(name)
    if name.startswith("tests/unit/") and path.name.startswith("test_"):
        # This includes its slow tests.
        return [".".join(path.with_suffix("").parts[1:])]
    rooms = path.parts[1:2]
    if path.parts[0] == "tests" and rooms and rooms[0] in _ROOMS:
        # A test needs itself; a helper needs the tests next to it.
        is_test = path.name.startswith("test_") and "cases" not in path.parts
        where = path if is_test else path.parent
        if where.name == "cases":
            where = where.parent
        return [".".join(where.with_suffix("").parts[1:])]
    for each in (path, *path.parents):
        if (found := NEEDS.get(str(each))) is not None:
            return found
    raise errors.TestbedError(
        f"{name} is of no row in tests/touched.py; add one"
    )


def needed(names: set[str]) -> Found:
    """Return what to run for names as in :data:`NEEDS`."""
    runners: dict[str, list[str]] = {}
    later: set[str] = set()
    for name in sorted(names):
        runner, _, rest = name.partition(".")
        modules = [*_modules(name)]
        if modules and (
            runner in _LATER or not any(map(has_gate_tests, modules))
        ):
            later.add(name)
        else:
            only = [rf"^tests\.{re.escape(name)}\."] if rest else []
            runners.setdefault(runner, []).extend(only)
        later |= {name for each in modules if not _is_whole(each)}
    for runner in names & runners.keys():
        # All its tests, whatever else is named.
        runners[runner] = []
    return Found(runners, [*_others(runners), *_parts(later)])


def _others(runners: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the runners and tests of the gate that are left out."""
    for each in ("docs", "tempest", *_ROOMS):
        if each not in runners:
            yield f"{each} (tools/test {each})"
        elif runners[each]:
            yield f"other tests of {each} (tools/test {each})"


def _parts(names: set[str]) -> Iterator[str]:
    """Yield parts of the periodic run that have tests of these names."""
    for part in parts.PARTS:
        for name in names:
            runner = name.partition(".")[0]
            if part.runner == runner and (
                not part.only
                or any(
                    re.match(each, f"tests.{name}.")
                    or each.startswith(rf"^tests\.{name}\.")
                    for each in part.only
                )
            ):
                yield f"tools/test --periodic {part.name}"
                break


def _modules(name: str) -> Iterator[pathlib.Path]:
    """Yield the test modules of a name as in :data:`NEEDS`."""
    path = paths.CHECKOUT.joinpath("tests", *name.split("."))
    if path.is_dir():
        yield from sorted(path.rglob("test_*.py"))
    elif path.with_suffix(".py").exists():
        yield path.with_suffix(".py")


def has_gate_tests(path: pathlib.Path) -> bool:
    """Return whether the gate has a test of a module."""
    return any(not later for later in _levels(path))


def _is_whole(path: pathlib.Path) -> bool:
    """Return whether the gate has each test of a module."""
    return not any(_levels(path))


def _levels(path: pathlib.Path) -> Iterator[bool]:
    """Yield for each test whether it is left to the periodic run."""
    for each in ast.parse(path.read_text()).body:
        if isinstance(each, ast.ClassDef):
            for test in each.body:
                if isinstance(test, ast.FunctionDef) and test.name.startswith(
                    "test_"
                ):
                    yield is_periodic(each) or is_periodic(test)


def is_periodic(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Return whether a test or a test class is left to the periodic run."""
    return any(
        ast.unparse(each).rpartition(".")[2] == "periodic"
        for each in node.decorator_list
    )


def _beginning() -> str:
    """Return the commit from which changes are searched."""
    head = _git("rev-parse", "HEAD").strip()
    for each in _UPSTREAMS:
        try:
            found = _git("merge-base", "HEAD", each).strip()
        except errors.TestbedError:
            continue
        if found != head:
            return found
        break
    return "HEAD" if changed("HEAD") else "HEAD~1"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ("git", *arguments),
        check=False,
        cwd=paths.CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise errors.TestbedError(
            f"git {' '.join(arguments)}: {done.stderr.strip()}"
        )
    return done.stdout
