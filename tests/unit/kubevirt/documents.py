# SPDX-License-Identifier: Apache-2.0

"""VMIs and their domains, as KubeVirt passes them to hooks."""

import json
import pathlib

from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt.vmi import PREFIX

UID = "5f6a0e3e-6f0c-4f5e-9f53-0c6a3d1d1f5e"

#: What the converter of KubeVirt 1.9 makes of a realtime VMI with three vCPUs
#: in a pod with CPUs 1 to 4; the interface as its network phase leaves it.
CONVERTED = pathlib.Path(__file__).parent / "domains/realtime.xml"

AGENT_CHANNEL = (
    '<channel type="unix"><target type="virtio" '
    'name="org.qemu.guest_agent.0"/></channel>'
    '<controller type="virtio-serial" index="0"/>'
)

DOMAIN = (
    '<domain type="kvm"><name>realtime_rt</name><memory>1048576</memory>'
    "<vcpu>2</vcpu>"
    '<metadata><kubevirt xmlns="http://kubevirt.io"><uid>u</uid></kubevirt>'
    "</metadata>"
    '<cputune><vcpupin vcpu="0" cpuset="2"/><vcpupin vcpu="1" cpuset="3"/>'
    '<emulatorpin cpuset="1"/></cputune>'
    f"<devices>{AGENT_CHANNEL}"
    '<video><model type="vga"/></video><graphics type="vnc"/>'
    '<memballoon model="virtio-non-transitional"/></devices></domain>'
)


def vmi(of_cpu=None, /, interfaces=(), devices=(), **asked):
    """Return a VMI as JSON.

    :param of_cpu: ``spec.domain.cpu.realtime``.
    :param interfaces: names of its SR-IOV interfaces.
    :param devices: names of its other devices of the host.
    :param asked: annotations of ours, without their prefix.
    """
    metadata = {"namespace": "realtime", "name": "rt", "uid": UID}
    if asked:
        metadata["annotations"] = {
            f"{PREFIX}{name}": text for name, text in asked.items()
        }
    cpu = {} if of_cpu is None else {"realtime": of_cpu}
    of_host = {
        "hostDevices": [{"name": each} for each in devices],
        "interfaces": [{"name": "default", "masquerade": {}}]
        + [{"name": each, "sriov": {}} for each in interfaces],
    }
    spec = {"domain": {"cpu": cpu, "devices": of_host}}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


def mutate(document, domain=DOMAIN, context="Boot", kind="libvirt"):
    """Return a MutateDomainRequest."""
    return contract.message("MutateDomainRequest")(
        domain_type=kind,
        domain=domain if isinstance(domain, bytes) else domain.encode(),
        vmi=document,
        sidecar_context={"invocation_context": context},
    ).SerializeToString()


def execute(point, document):
    """Return an ExecuteNodeHookRequest."""
    return contract.message("ExecuteNodeHookRequest")(
        hookPoint=point, vmi=document, node_context={"node_name": "node-1"}
    ).SerializeToString()
