# SPDX-License-Identifier: Apache-2.0

"""A nodegroup's values for the chart, from its flavor and labels."""

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt import reason
from sriov_rt import request
from sriov_rt.magnum import errors
from sriov_rt.magnum import labels as own_labels
from sriov_rt.magnum import node
from sriov_rt.magnum import pod_networks
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors as parse_errors
from sriov_rt.parse import label
from sriov_rt.placement import host_traits
from sriov_rt.request import grammar
from sriov_rt.request import words

#: Labels and taints of ours on nodes.
NODE_PREFIX = "sriov-rt.openstack.org/"
REALTIME = NODE_PREFIX + "realtime"
TRUE = "true"

#: Label of kata-deploy on nodes with Kata, which RuntimeClasses select.
KATA = "katacontainers.io/kata-runtime"

#: The chart's own rule (node-group/machine-deployment.yaml).
_NAME = re.compile(r"[a-z][a-z0-9-]+[a-z0-9]")

#: The chart's name of the control plane, whose MachineHealthCheck a nodegroup
#: of this name would replace (control-plane/machine-health-check.yaml).
_CONTROL_PLANE = "control-plane"

#: The chart truncates RELEASE-NAME, and Magnum looks for the full name.
MAX_COMPONENT = 63

#: Memory that the kubelet reserves for the system, MiB; EVICTION_MIB is its
#: default of evictionHard memory.available. The memory manager starts only if
#: --reserved-memory is their sum.
SYSTEM_MIB = 512
EVICTION_MIB = 100

#: Memory that a node needs besides huge pages, MiB.
_ORDINARY_MIB = 1024

#: Name or UUID of a network to the UUIDs of matching networks.
Networks = Mapping[str, Sequence[str]]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor of Nova.

    :param extra_specs: None if policy hides them from the user.
    """

    name: str
    vcpus: int
    ram_mib: int
    extra_specs: Mapping[str, str] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Nodegroup:
    """A nodegroup of Magnum.

    :param chart_name: its name in the chart.
    :param labels: its labels, merged by Magnum with the cluster's.
    :param default: whether it is the cluster's default worker nodegroup.
    """

    name: str
    chart_name: str
    labels: Mapping[str, str]
    node_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    node_taints: Sequence[Mapping[str, str]] = ()
    default: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings shared by all nodegroups of a cluster.

    :param release: the name of the cluster's Helm release, if it has one.
    :param onload_admission: whether the API server patches pods for Onload.
    :param extra_networks: networks on which each node has an ordinary port.
    """

    release: str | None = None
    taint_realtime: bool = True
    onload_admission: bool = False
    extra_networks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """A nodegroup that can be built.

    :param values: keys to add to its entry in the chart's nodeGroups.
    :param traits: traits that a host must have in Placement.
    """

    values: Mapping[str, Any]
    traits: frozenset[str]
    flavor: Flavor
    request: request.Request


def render(
    nodegroup: Nodegroup,
    flavor: Flavor,
    settings: Settings,
    read_networks: Callable[[], Networks],
) -> Rendered:
    """Return the chart values of a nodegroup.

    A nodegroup without sriov_rt extra specs and labels gets only Magnum's
    node labels and taints.

    :param read_networks: returns the networks that the user sees; called only
        if the labels name networks.
    :raises NodegroupRefused: with every problem found.
    """
    problems = list(_name_problems(nodegroup, settings))
    problems += _node_label_problems(nodegroup.node_labels)
    problems += _taint_problems(nodegroup.node_taints)
    labels = own_labels.Labels()
    try:
        labels = own_labels.parse(nodegroup.labels)
    except own_labels.LabelsRejected as error:
        problems.append(str(error))
    requested = _request(flavor, problems)
    realtime = _realtime_cpus(flavor, requested, problems)
    problems += _demand_problems(labels.demands, requested, flavor)
    problems += _huge_page_problems(labels.huge_pages, flavor)
    problems += _pod_problems(labels, requested)
    networks = (
        _identified(labels.networks, read_networks(), problems)
        if labels.networks
        else {}
    )
    if labels.runtimes and requested.onload:
        problems.append(
            f"flavor {flavor.name!r} has sriov_rt:onload=required, and the "
            "kernel of a Kata guest has no Onload; remove label "
            f"{own_labels.PREFIX}runtimes, or choose another flavor"
        )
    if problems:
        raise errors.NodegroupRefused(nodegroup.name, problems)
    return Rendered(
        _values(
            nodegroup, flavor, requested, labels, realtime, settings, networks
        ),
        _traits(requested, flavor.extra_specs or {}),
        flavor,
        requested,
    )


def why_not_flavor(flavor: Flavor) -> tuple[str, ...]:
    """Return why no server of this flavor can be built, a clause each."""
    problems: list[str] = []
    _request(flavor, problems)
    return tuple(problems)


def _name_problems(nodegroup: Nodegroup, settings: Settings) -> list[str]:
    name = nodegroup.chart_name
    if not _NAME.fullmatch(name):
        return [
            f"its name becomes {name!r} in the chart, which takes three or "
            "more of a-z, 0-9 and -, a letter first and a letter or digit "
            "last; choose another name"
        ]
    if name == _CONTROL_PLANE:
        return [
            f"its name is that of the chart's own {name}, whose health check "
            "it would replace; choose another name"
        ]
    # A new cluster has no release name yet; default-worker always fits.
    longest = MAX_COMPONENT - len(settings.release or "") - 1
    if len(name) > longest:
        return [
            f"its name is too long for this cluster, {longest} characters is "
            "the limit; choose a shorter one"
        ]
    return []


def _node_label_problems(labels: Mapping[str, str]) -> list[str]:
    problems = []
    for key, value in labels.items():
        why = label.why_not_key(key) or label.why_not_value(value)
        if why is None and key.startswith(
            (NODE_PREFIX, pod_networks.LABEL_PREFIX)
        ):
            why = "its prefix is for labels of sriov-rt"
        if why is not None:
            problems.append(f"node label {key!r}={value!r}: {why}")
    return problems


def _taint_problems(taints: Sequence[Mapping[str, str]]) -> list[str]:
    problems = []
    for taint in taints:
        key, value = taint.get("key") or "", taint.get("value") or ""
        why = label.why_not_key(key) or label.why_not_value(value)
        if why is None and taint.get("effect") not in _EFFECTS:
            why = f"its effect has to be one of {', '.join(_EFFECTS)}"
        if why is not None:
            problems.append(f"node taint {key!r}={value!r}: {why}")
    return problems


def _request(flavor: Flavor, problems: list[str]) -> request.Request:
    """Return the flavor's Request; an empty one if it has problems."""
    named = f"flavor {flavor.name!r}"
    if flavor.extra_specs is None:
        problems.append(
            f"Nova does not show the extra specs of {named} to this user; "
            "allow it by os_compute_api:os-flavor-extra-specs:index"
        )
        return request.Request()
    if not request.asks(flavor.extra_specs):
        return request.Request()
    try:
        requested = request.parse(flavor.extra_specs)
    except request.RequestError as error:
        problems.append(
            f"{named}: "
            + reason.reason("request_invalid", problems=str(error)).message
        )
        return request.Request()
    if requested.realtime and not requested.dedicated_cpus:
        code = (
            "cpu_policy_mixed"
            if requested.mixed_cpus
            else "cpu_policy_not_dedicated"
        )
        problems.append(f"{named}: {reason.reason(code).message}")
    return requested


def _realtime_cpus(
    flavor: Flavor, requested: request.Request, problems: list[str]
) -> cpulist.CpuSet:
    """Return the node's realtime CPUs, which are the server's vCPUs.

    The mask is read as in get_realtime_cpu_constraint (nova/virt/hardware.py).
    """
    if flavor.extra_specs is None or not requested.realtime_cpus:
        return cpulist.CpuSet()
    everything = cpulist.CpuSet(range(flavor.vcpus))
    mask = flavor.extra_specs.get("hw:cpu_realtime_mask", "").strip()
    named = f"flavor {flavor.name!r}: hw:cpu_realtime_mask"
    try:
        found = cpulist.parse_cpu_list(mask, exclusions=True)
        if mask.startswith("^"):
            found = cpulist.parse_cpu_list(
                f"0-{flavor.vcpus - 1},{mask}", exclusions=True
            )
    except parse_errors.ParseError as error:
        problems.append(f"{named}: {str(error).rstrip('.')}")
        return cpulist.CpuSet()
    if not mask or found == everything:
        problems.append(
            f"{named} leaves no vCPU to the node's own processes; set it to "
            "^0, or to ^0-1 for two"
        )
    elif not found:
        problems.append(f"{named} leaves no realtime vCPU; change it")
    elif not found <= everything:
        problems.append(
            f"{named} names vCPUs beyond {flavor.vcpus - 1}; change it"
        )
    return found


def _demand_problems(
    demands: Mapping[str, Any], requested: request.Request, flavor: Flavor
) -> list[str]:
    problems = []
    for name, demanded in demands.items():
        has = getattr(requested, grammar.KEYS[name].field)
        if name == "max_latency_us":
            met = has is not None and has <= demanded
        elif name == "keep":
            met = has >= demanded
        else:
            met = has == demanded
        if not met:
            problems.append(
                f"label {own_labels.PREFIX}{name} demands what flavor "
                f"{flavor.name!r} does not have; choose a flavor with that "
                f"{grammar.NAMESPACE}:{name}, or remove the label"
            )
    return problems


def _huge_page_problems(
    pages: own_labels.HugePages | None, flavor: Flavor
) -> list[str]:
    room = flavor.ram_mib - SYSTEM_MIB - EVICTION_MIB - _ORDINARY_MIB
    if pages is None or pages.mib <= room:
        return []
    return [
        f"label {own_labels.PREFIX}huge_pages takes {pages.mib} MiB, and "
        f"flavor {flavor.name!r} has room for {max(room, 0)} MiB of huge "
        "pages; ask for fewer, or choose a larger flavor"
    ]


def _pod_problems(
    labels: own_labels.Labels, requested: request.Request
) -> list[str]:
    found = labels.pod_networks
    if found is None:
        if labels.pod_subnets:
            return [
                f"label {own_labels.PREFIX}pod_subnets has no effect without "
                f"{own_labels.PREFIX}pod_vif; set it to macvlan, ipvlan or vf"
            ]
        return []
    if not labels.networks:
        return [
            f"label {own_labels.PREFIX}pod_vif needs the networks of the "
            f"nodes; name them in {own_labels.PREFIX}networks"
        ]
    return found.problems(requested.vif)


def _identified(
    names: Sequence[str], networks: Networks, problems: list[str]
) -> dict[str, str]:
    """Return the UUID of each named network."""
    found = {}
    for name in dict.fromkeys(names):
        ids = networks.get(name, ())
        if len(ids) == 1:
            found[name] = ids[0]
        elif ids:
            problems.append(
                f"{len(ids)} networks have the name {name!r}; put the UUID "
                "of one into the label"
            )
        else:
            problems.append(
                f"there is no network {name!r} for this user; see "
                "'openstack network list'"
            )
    return found


def _values(
    nodegroup: Nodegroup,
    flavor: Flavor,
    requested: request.Request,
    labels: own_labels.Labels,
    realtime: cpulist.CpuSet,
    settings: Settings,
    networks: Mapping[str, str],
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    found = {
        **nodegroup.node_labels,
        **_node_labels(requested, labels, realtime, settings),
    }
    if found:
        values["nodeLabels"] = found
    if labels.networks:
        values["machineNetworking"] = {
            "ports": _ports(
                [networks[name] for name in labels.networks],
                requested.vif,
                labels,
                settings,
            )
        }
        # The metadata service may be unreachable before the ports are up.
        values["machineConfigDrive"] = True
    registration: dict[str, Any] = {}
    taints = [
        {
            "key": each["key"],
            "value": each.get("value") or "",
            "effect": each["effect"],
        }
        for each in nodegroup.node_taints
    ]
    if (
        requested.realtime
        and settings.taint_realtime
        and not nodegroup.default
    ):
        taints.append({"key": REALTIME, "value": TRUE, "effect": "NoSchedule"})
    if taints:
        registration["taints"] = taints
    housekeeping = cpulist.CpuSet(range(flavor.vcpus)) - realtime
    if realtime:
        registration["kubeletExtraArgs"] = _kubelet(housekeeping)
    bootstrap = _bootstrap(labels, realtime, housekeeping, networks)
    if registration:
        bootstrap["joinConfiguration"] = {"nodeRegistration": registration}
    if bootstrap:
        values["kubeadmConfigSpec"] = bootstrap
    return values


def _node_labels(
    requested: request.Request,
    labels: own_labels.Labels,
    realtime: cpulist.CpuSet,
    settings: Settings,
) -> dict[str, str]:
    found = {}
    if requested.realtime:
        found["realtime"] = TRUE
    if realtime:
        found["realtime-cpus"] = str(len(realtime))
    if labels.networks:
        kind = requested.vif.kind.value if requested.vif else "network"
        found["fast-ports"] = kind
    if requested.onload:
        found["onload-host"] = TRUE
        if settings.onload_admission:
            found["onload-admission"] = TRUE
    ours = {NODE_PREFIX + name: value for name, value in found.items()}
    if labels.runtimes:
        ours[KATA] = TRUE
    pods = labels.pod_networks
    return {**ours, **(pods.node_labels() if pods else {})}


def _ports(
    networks: Sequence[str],
    vif: words.Vif | None,
    labels: own_labels.Labels,
    settings: Settings,
) -> list[dict[str, Any]]:
    """Return all ports of a node; the chart does not merge lists.

    To Nova, a VF is a PCI device of VNIC type direct. Our mechanism driver
    binds ports of type normal on its physical networks.

    Cluster API's OpenStack provider gives the cluster's security groups to a
    port with an empty list of them (``len(port.SecurityGroups) == 0`` in its
    controllers/openstackmachine_controller.go). Neutron refuses those on a
    network without port security.

    :param networks: UUIDs of the fast networks.
    """
    whole = vif is not None and vif.kind is words.VifKind.VF
    common: dict[str, Any] = {"vnicType": "direct" if whole else "normal"}
    if not labels.port_security:
        common["disablePortSecurity"] = True
    trusted = labels.trusted_vf
    if trusted is None:
        # An untrusted VF rejects the MAC addresses of pods.
        trusted = (
            labels.pod_vif is not None
            and labels.pod_vif.kind is words.VifKind.MACVLAN
        )
    if whole and trusted:
        common["profile"] = {"trustedVF": True}
    # The same ports as magnum-capi-helm's.
    ordinary: list[dict[str, Any]] = [
        {"network": {"name": name}, "securityGroups": []}
        for name in settings.extra_networks
    ]
    fast = [{"network": {"id": each}, **common} for each in networks]
    # The first is the port on the cluster's own network.
    return [{}, *ordinary, *fast]


def _kubelet(housekeeping: cpulist.CpuSet) -> dict[str, str]:
    return {
        "cpu-manager-policy": "static",
        "reserved-cpus": cpulist.format_cpu_list(housekeeping),
        "topology-manager-policy": "single-numa-node",
        "memory-manager-policy": "Static",
        "system-reserved": f"memory={SYSTEM_MIB}Mi",
        "reserved-memory": f"0:memory={SYSTEM_MIB + EVICTION_MIB}Mi",
    }


def _bootstrap(
    labels: own_labels.Labels,
    realtime: cpulist.CpuSet,
    housekeeping: cpulist.CpuSet,
    networks: Mapping[str, str],
) -> dict[str, Any]:
    parameters = []
    if realtime:
        cpus = cpulist.format_cpu_list(realtime)
        parameters += [
            f"isolcpus=managed_irq,domain,{cpus}",
            f"nohz_full={cpus}",
            f"rcu_nocbs={cpus}",
            f"irqaffinity={cpulist.format_cpu_list(housekeeping)}",
        ]
    if labels.huge_pages:
        parameters += [
            f"hugepagesz={labels.huge_pages.size}",
            f"hugepages={labels.huge_pages.count}",
        ]
    parts = []
    if labels.runtimes:
        parts.append(node.container_runtimes(labels.runtimes))
    if labels.pod_networks:
        parts.append(labels.pod_networks.bootstrap(networks))
    if parameters:
        # It may reboot the node, which then starts over.
        parts.insert(0, node.kernel_parameters(parameters))
    return {
        key: [each for part in parts for each in part[key]]
        for key in ("files", "preKubeadmCommands")
        if parts
    }


def _traits(
    requested: request.Request, extra_specs: Mapping[str, str]
) -> frozenset[str]:
    """Return the traits that a Request implies for its host."""
    implied = {
        host_traits.REALTIME: requested.realtime,
        host_traits.PREFIX + "PREEMPT_RT": requested.kernel
        is words.Kernel.PREEMPT_RT,
        host_traits.PREFIX + "ONLOAD": requested.onload,
        host_traits.LATENCY_CERTIFIED: requested.max_latency_us is not None,
    }
    found = {name for name, needed in implied.items() if needed}
    if request.asks(extra_specs):
        found |= {
            key.removeprefix("trait:")
            for key, value in extra_specs.items()
            if key.startswith("trait:") and value == "required"
        }
    return frozenset(found)
