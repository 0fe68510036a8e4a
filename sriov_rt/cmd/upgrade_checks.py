# SPDX-License-Identifier: Apache-2.0

"""Verdicts of ``sriov-rt-status upgrade check`` on the state of a host."""

import dataclasses
import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_upgradecheck import upgradecheck
from oslo_upgradecheck.upgradecheck import Code

from sriov_rt.codec import Unknown
from sriov_rt.decide import silent
from sriov_rt.pods import manifest
from sriov_rt.reason import first_of

#: Our filter in nova-scheduler, and Nova's filters that belong after it: they
#: fit NUMA cells and PCI devices (see sriov_rt.nova.filters.COSTLY).
FILTER = "RealtimeSriovFilter"
COSTLY = ("NUMATopologyFilter", "PciPassthroughFilter")

#: Entry of available_filters that makes the filter known to nova-scheduler.
AVAILABLE = "sriov_rt.nova.filters.all_filters"

#: Value of [DEFAULT] compute_driver.
DRIVER = "sriov_rt.RealtimeLibvirtDriver"

#: Options of a unit that grant capabilities.
CAPABILITY_OPTIONS = ("CapabilityBoundingSet", "AmbientCapabilities")

#: A release of KubeVirt, and a VMI's fields by their Go and JSON names.
_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_GO_NAMES = re.compile(r"\bvmi\.[A-Z]")
_JSON_NAMES = re.compile(r"\bvmi\.[a-z]")

#: The most names that one sentence lists; it counts the others.
_LISTED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigurationProblem:
    """A configuration with which a service would not start.

    :param text: a sentence that names the file or the option.
    :param is_unreadable: whether the file could not be opened here; the
        service may be able to.
    """

    text: str
    is_unreadable: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """``[filter_scheduler]`` of nova.conf.

    :param enabled: enabled_filters; None if it is not set.
    """

    enabled: tuple[str, ...] | None
    available: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Agents:
    """The agents of the cloud that report.

    :param versions: release of each agent, by host.
    :param refused: what is wrong with facts that were refused, by host.
    :param rivals: agents that report as the same host, by its name.
    """

    versions: Mapping[str, str]
    refused: Mapping[str, str]
    rivals: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class StoredPorts:
    """Files with the records of ports.

    :param damaged: what is wrong with a record, by port.
    :param kept: names of damaged files that were kept.
    :param in_progress: ports that are being plugged or unplugged.
    """

    damaged: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kept: tuple[str, ...] = ()
    in_progress: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Shim:
    """The module in ``nova.virt`` that makes Nova find the compute driver.

    :param path: path where Nova looks for it; None if Nova is not installed.
    """

    path: str | None
    is_there: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """A systemd unit of sriov-rt.

    :param shipped: its text in this release.
    :param installed: the texts of the host's unit and of its drop-ins, in
        systemd's order; empty if it is not installed.
    """

    name: str
    shipped: str
    installed: tuple[str, ...] | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Compute:
    """nova-compute on this host.

    :param configured: ``[DEFAULT] compute_driver``; None if no nova.conf
        sets it.
    :param is_running: whether a process of it is running.
    :param driver: release of sriov-rt whose driver it runs; None if it does
        not run the driver.
    """

    configured: str | None | Unknown
    is_running: bool | Unknown
    driver: str | None | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class KubeVirt:
    """KubeVirt of a cluster, and sriov-rt's Plugin there.

    :param version: release of KubeVirt, such as ``v1.9.0``.
    :param has_gate: whether its feature gate Plugins is on.
    :param plugin: ``spec`` of the Plugin; None if there is none.
    """

    version: str
    has_gate: bool
    plugin: Mapping[str, Any] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Dhcp:
    """Sources of DHCP and metadata for ports that OVN does not bind.

    :param drivers: ``[ml2] mechanism_drivers``.
    :param networks: whether ``[ml2_sriov_rt] physical_networks`` has any.
    :param config_drive: whether nova.conf of this host forces a config drive.
    :param agent: whether neutron-dhcp-agent runs on this host.
    """

    drivers: tuple[str, ...]
    networks: bool
    config_drive: bool
    agent: bool | Unknown


def configuration(
    problems: Sequence[ConfigurationProblem],
) -> upgradecheck.Result:
    """Judge the configuration that the services would read at their start."""
    return _result(
        [each.text for each in problems if not each.is_unreadable],
        [each.text for each in problems if each.is_unreadable],
    )


def filters(found: Filters | Unknown) -> upgradecheck.Result:
    """Judge the filter's position in nova-scheduler's order."""
    if isinstance(found, Unknown):
        return _unknown("nova-scheduler's filters", found)
    known = AVAILABLE in found.available
    enabled = found.enabled
    if enabled is None or FILTER not in enabled:
        if known:
            return _failure(
                f"{FILTER} is not in [filter_scheduler] enabled_filters: "
                "flavors are placed without regard to their sriov_rt: extra "
                "specs; add it before NUMATopologyFilter and "
                "PciPassthroughFilter"
            )
        return _success(
            "nova.conf of this host does not name sriov-rt's filters"
        )
    if not known:
        return _failure(
            f"[filter_scheduler] available_filters lacks {AVAILABLE}: "
            f"nova-scheduler does not start with {FILTER}; add the line"
        )
    place = enabled.index(FILTER)
    early = [each for each in enabled[:place] if each in COSTLY]
    if early:
        return _warning(
            f"{FILTER} stands behind {' and '.join(early)}, which then fit "
            "hosts that it refuses; move it before them in "
            "[filter_scheduler] enabled_filters"
        )
    return _success()


def agents(found: Agents | Unknown, version: str) -> upgradecheck.Result:
    """Judge the agents of the cloud."""
    if isinstance(found, Unknown):
        return _unknown("the agents of the cloud", found)
    failures, warnings = [], []
    if found.refused:
        host, problem = min(found.refused.items())
        failures.append(
            f"facts of {_listed(found.refused)} are refused ({host}: "
            f"{problem}): install this release there and restart "
            "sriov-rt-agent"
        )
    for host, names in sorted(found.rivals.items())[:_LISTED]:
        why = silent(names)
        failures.append(f"{host}: {why.message}")
    others = {
        f"{host} ({theirs})"
        for host, theirs in found.versions.items()
        if theirs != version
    }
    if others:
        warnings.append(
            f"agents of another release than {version}: {_listed(others)}; "
            "upgrade compute hosts before nova-scheduler"
        )
    if not found.versions and not found.refused:
        warnings.append(
            "no agent has reported; check that sriov-rt-agent runs on the "
            "compute hosts"
        )
    return _result(failures, warnings)


def records(found: StoredPorts | Unknown) -> upgradecheck.Result:
    """Judge the records of the ports of this host."""
    if isinstance(found, Unknown):
        return _unknown("the records of ports", found)
    failures, warnings = [], []
    if found.damaged:
        port, problem = min(found.damaged.items())
        failures.append(
            f"damaged records: {_listed(found.damaged)} ({port}: {problem}); "
            "check that no interface of the ports is left and run 'sriov-rt "
            "vif forget PORT --force', or move the instances away and reboot "
            "the host"
        )
    if found.in_progress:
        warnings.append(
            f"ports in progress: {_listed(found.in_progress)}; run 'sriov-rt "
            "vif recover'"
        )
    if found.kept:
        warnings.append(
            f"damaged files that were kept: {_listed(found.kept)}; check that "
            "no interface of their ports is left and run 'sriov-rt "
            "vif forget PORT --force'"
        )
    return _result(failures, warnings)


def shim(found: Shim, configured: str | None | Unknown) -> upgradecheck.Result:
    """Judge the module that Nova imports the compute driver from.

    :param configured: ``[DEFAULT] compute_driver`` of nova.conf.
    """
    if found.path is None:
        return _success("Nova is not installed in this Python environment")
    if found.is_there:
        return _success()
    if configured == DRIVER:
        return _failure(
            f"{found.path} is missing: nova-compute does not start with "
            f"compute_driver = {DRIVER}; copy shim/nova/virt/sriov_rt.py there"
        )
    return _warning(
        f"{found.path} is missing: nova-compute cannot have sriov-rt's "
        "driver; copy shim/nova/virt/sriov_rt.py there"
    )


def units(found: Iterable[Unit]) -> upgradecheck.Result:
    """Judge the capabilities of the installed units of systemd."""
    warnings = []
    for each in found:
        if isinstance(each.installed, Unknown):
            warnings.append(f"{each.name}: {each.installed.reason}")
            continue
        for option in CAPABILITY_OPTIONS if each.installed else ():
            lacking = _lacking(option, each.shipped, each.installed)
            if lacking:
                warnings.append(
                    f"{each.name} lacks {' '.join(sorted(lacking))} in "
                    f"{option}; compare it with the unit of this release "
                    "and run 'systemctl daemon-reload'"
                )
    return _result([], warnings)


def dhcp(found: Dhcp | Unknown) -> upgradecheck.Result:
    """Judge whether servers behind OVN get addresses and metadata."""
    if isinstance(found, Unknown):
        return _unknown("the mechanism drivers of neutron-server", found)
    if not (found.networks and {"sriov_rt", "ovn"} <= {*found.drivers}):
        return _success()
    if found.config_drive or found.agent is True:
        return _success()
    return _warning(
        "OVN gives ports of sriov_rt neither DHCP nor metadata, and this host "
        "has no sign of another way; run neutron-dhcp-agent on a network "
        "node, or set [DEFAULT] force_config_drive = true in nova.conf of "
        "the compute hosts"
    )


def compute_driver(found: Compute, version: str) -> upgradecheck.Result:
    """Judge the driver of the running nova-compute."""
    for each in (found.is_running, found.driver, found.configured):
        if isinstance(each, Unknown):
            return _unknown("the driver of nova-compute", each)
    if found.driver == version:
        return _success()
    if found.driver is not None:
        return _warning(
            f"nova-compute runs with the driver of sriov-rt {found.driver}, "
            f"and {version} is installed; restart nova-compute"
        )
    if not found.is_running:
        return _success("no nova-compute runs on this host")
    if found.configured == DRIVER:
        # Drivers of earlier releases do not report that they run.
        return _warning(
            f"nova.conf says compute_driver = {DRIVER}, and nova-compute runs "
            "with another, or with that of an older release; restart it, and "
            "see its log if that does not help"
        )
    return _warning(
        "nova-compute runs with another driver than sriov-rt's: flavors that "
        "need it keep off this host; set [DEFAULT] compute_driver = "
        f"{DRIVER} if it is for realtime guests"
    )


def kubevirt(found: KubeVirt | Unknown | None) -> upgradecheck.Result:
    """Judge sriov-rt's Plugin by the release of KubeVirt that evaluates it.

    In 1.9 virt-launcher evaluates a VMI's fields by their Go names and
    virt-handler by their JSON names; from 1.10 on both use Go's names
    (kubevirt#18892).
    """
    if found is None:
        return _success("no kubeconfig file names a cluster with KubeVirt")
    if isinstance(found, Unknown):
        return _unknown("the Plugin of KubeVirt", found)
    version = found.version
    if found.plugin is None:
        return _success(f"KubeVirt {version} has no Plugin sriov-rt")
    release = _RELEASE.match(version)
    if release is None:
        return _warning(
            f"the release of KubeVirt is unknown ({version!r}); check that "
            "virt-operator runs"
        )
    is_later = (int(release[1]), int(release[2])) >= (1, 10)
    file = "plugin-1.10.yaml" if is_later else "plugin.yaml"
    failures, warnings = [], []
    if found.plugin.get("condition"):
        failures.append(
            f"the Plugin sriov-rt on KubeVirt {version} has spec.condition, "
            "by which virt-handler of a release after 1.9.0 fails every VMI "
            f"of the cluster; apply {file} of this release"
        )
    for hooks, others in (
        ("domainHooks", _JSON_NAMES),
        ("nodeHooks", _JSON_NAMES if is_later else _GO_NAMES),
    ):
        conditions = manifest.objects(found.plugin, hooks)
        if any(
            others.search(manifest.text(e, "condition")) for e in conditions
        ):
            failures.append(
                f"conditions of the Plugin's {hooks} are not for KubeVirt "
                f"{version}, which then fails every VMI that reaches them; "
                f"apply {file} of this release"
            )
    if not found.has_gate:
        warnings.append(
            f"the feature gate Plugins of KubeVirt {version} is off, so that "
            "no hook of the Plugin sriov-rt is called; turn it on, or delete "
            "the Plugin"
        )
    if not (failures or warnings):
        return _success(f"KubeVirt {version}")
    return _result(failures, warnings)


def _lacking(option: str, shipped: str, installed: Sequence[str]) -> set[str]:
    """Return capabilities of a shipped unit that the installed one lacks."""
    needed = capabilities(option, (shipped,)) or set()
    granted = capabilities(option, installed)
    if granted is None:
        # Then systemd does not bound capabilities, and grants no ambient ones.
        granted = needed if option == CAPABILITY_OPTIONS[0] else set()
    return needed - granted


def capabilities(option: str, texts: Sequence[str]) -> set[str] | None:
    """Return the capabilities that a unit and its drop-ins list.

    As in systemd.exec(5), lines add up, and an empty line resets the list. A
    line that begins with ``~`` removes capabilities.

    :returns: None if no line sets the option, or all but some are granted.
    """
    found: set[str] | None = None
    for value in _values(option, texts):
        if not value:
            found = set()
        elif value.startswith("~"):
            if found is not None:
                found -= set(value[1:].split())
        else:
            found = (found or set()) | set(value.split())
    return found


def _values(option: str, texts: Sequence[str]) -> Iterable[str]:
    for text in texts:
        for line in text.replace("\\\n", " ").splitlines():
            name, equals, value = line.partition("=")
            if equals and name.strip() == option:
                yield value.strip()


def _listed(names: Iterable[str]) -> str:
    return first_of(sorted(names), _LISTED)


def _result(
    failures: Sequence[str], warnings: Sequence[str]
) -> upgradecheck.Result:
    details = ". ".join((*failures, *warnings)) or None
    if failures:
        return upgradecheck.Result(Code.FAILURE, details)
    code = Code.WARNING if warnings else Code.SUCCESS
    return upgradecheck.Result(code, details)


def _success(details: str | None = None) -> upgradecheck.Result:
    return upgradecheck.Result(Code.SUCCESS, details)


def _warning(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(Code.WARNING, details)


def _failure(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(Code.FAILURE, details)


def _unknown(name: str, why: Unknown) -> upgradecheck.Result:
    return _warning(f"{name} cannot be judged: {why.reason}")
