# SPDX-License-Identifier: Apache-2.0

"""HostFacts: the facts of a host, read from its kernel."""

from sriov_rt.facts.decisive_facts import DecisiveFacts
from sriov_rt.facts.decisive_facts import decisive
from sriov_rt.facts.host_facts import MAX_DOCUMENT
from sriov_rt.facts.host_facts import PARTS
from sriov_rt.facts.host_facts import SCHEMA_VERSION
from sriov_rt.facts.host_facts import HostFacts
from sriov_rt.facts.host_facts import from_json
from sriov_rt.facts.host_facts import from_plain
from sriov_rt.facts.host_facts import unknown
from sriov_rt.facts.network import CountedVf
from sriov_rt.facts.network import DecisiveNic
from sriov_rt.facts.network import Endpoint
from sriov_rt.facts.network import HeldVf
from sriov_rt.facts.network import LostPort
from sriov_rt.facts.network import Nic
from sriov_rt.facts.network import NicFacts
from sriov_rt.facts.network import OnloadFacts
from sriov_rt.facts.network import QuarantinedPort
from sriov_rt.facts.network import Vf
from sriov_rt.facts.network import VfCounters
from sriov_rt.facts.network import VifFacts
from sriov_rt.facts.network import Workload
from sriov_rt.facts.parts import NOT_REPORTED
from sriov_rt.facts.parts import CgroupPartition
from sriov_rt.facts.parts import ComputeFacts
from sriov_rt.facts.parts import CpuFacts
from sriov_rt.facts.parts import Governor
from sriov_rt.facts.parts import GuestCgroup
from sriov_rt.facts.parts import HostHold
from sriov_rt.facts.parts import HugePages
from sriov_rt.facts.parts import IdleState
from sriov_rt.facts.parts import IrqFacts
from sriov_rt.facts.parts import IrqGroup
from sriov_rt.facts.parts import KernelFacts
from sriov_rt.facts.parts import LabelFacts
from sriov_rt.facts.parts import LatencyCertificate
from sriov_rt.facts.parts import LatencyFacts
from sriov_rt.facts.parts import MaintenanceFacts
from sriov_rt.facts.parts import MemoryFacts
from sriov_rt.facts.parts import NumaNode
from sriov_rt.facts.parts import OccupancyFacts
from sriov_rt.facts.parts import Occupant
from sriov_rt.facts.parts import PowerManagement
from sriov_rt.facts.parts import VirtFacts
from sriov_rt.facts.parts import for_guests
from sriov_rt.parse.cpulist import CpuSet

__all__ = [
    "MAX_DOCUMENT",
    "NOT_REPORTED",
    "PARTS",
    "SCHEMA_VERSION",
    "CgroupPartition",
    "ComputeFacts",
    "CountedVf",
    "CpuFacts",
    "CpuSet",
    "DecisiveFacts",
    "DecisiveNic",
    "Endpoint",
    "Governor",
    "GuestCgroup",
    "HeldVf",
    "HostFacts",
    "HostHold",
    "HugePages",
    "IdleState",
    "IrqFacts",
    "IrqGroup",
    "KernelFacts",
    "LabelFacts",
    "LatencyCertificate",
    "LatencyFacts",
    "LostPort",
    "MaintenanceFacts",
    "MemoryFacts",
    "Nic",
    "NicFacts",
    "NumaNode",
    "OccupancyFacts",
    "Occupant",
    "OnloadFacts",
    "PowerManagement",
    "QuarantinedPort",
    "Vf",
    "VfCounters",
    "VifFacts",
    "VirtFacts",
    "Workload",
    "decisive",
    "for_guests",
    "from_json",
    "from_plain",
    "unknown",
]
