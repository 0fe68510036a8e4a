# SPDX-License-Identifier: Apache-2.0

"""Configuration of Multus and the device plugin on one node.

Nodes run this file unchanged, from cloud-init and before they join: it needs
only Python 3.9 and iproute2. Addresses in a Neutron network are unique, so
the host part of a node's address is unique too; it selects the node's range
of each pod subnet.
"""

import ipaddress
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

#: A JSON object.
Object = dict[str, Any]

#: Root directory of the node; tests set another one.
ROOT = pathlib.Path(os.environ.get("SRIOV_RT_ROOT", "/"))

CONFIG = ROOT / "etc/sriov-rt/pod-networks.json"
MULTUS = ROOT / "etc/cni/multus/net.d"
DEVICE_PLUGIN = ROOT / "etc/pcidp/config.json"

RESOURCE_PREFIX = "sriov-rt.openstack.org"

#: Seconds to wait for an address from cloud-init's DHCP client.
PATIENCE_S = 120

#: Seconds that a program may take.
PROGRAM_S = 60


class Unfit(Exception):
    """The networks cannot be configured on this node."""


def links(data: Object, network: str) -> list[str]:
    """Return the MAC addresses of the node's ports on a network.

    :param network: UUID of the network.
    """
    ids = {
        each["link"]
        for each in data["networks"]
        if each.get("network_id") == network
    }
    return [
        each["ethernet_mac_address"].lower()
        for each in data["links"]
        if each["id"] in ids
    ]


def device(mac: str) -> str:
    """Return the name of the interface with a MAC address."""
    for path in sorted((ROOT / "sys/class/net").iterdir()):
        # A VLAN or bridge has the same MAC address as its port.
        if (path / "device").exists() and (
            path / "address"
        ).read_text().strip() == mac:
            return path.name
    raise Unfit(f"no interface has MAC address {mac}")


def address(name: str) -> ipaddress.IPv4Interface:
    """Return the IPv4 address of an interface, once it has one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = subprocess.run(
            ("ip", "-json", "-4", "address", "show", "dev", name),
            check=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
            timeout=PROGRAM_S,
        )
        for each in json.loads(shown.stdout or "[]"):
            for found in each.get("addr_info", ()):
                if found.get("scope") == "global":
                    return ipaddress.IPv4Interface(
                        f"{found['local']}/{found['prefixlen']}"
                    )
        if time.monotonic() > deadline:
            raise Unfit(f"interface {name} has no IPv4 address")
        time.sleep(1)


def ipam(subnet: str, pods: int, own: ipaddress.IPv4Interface) -> Object:
    """Return the IPAM section with this node's range of a pod subnet.

    :param pods: number of addresses of each node.
    :param own: the node's address on the network.
    """
    whole = ipaddress.IPv4Network(subnet)
    number = int(own.ip) - int(own.network.network_address)
    first = int(whole.network_address) + number * pods
    last = first + pods - 1
    if last >= int(whole.broadcast_address):
        raise Unfit(
            f"pod subnet {subnet} has no {pods} addresses for node number "
            f"{number} (of {own}); choose a larger subnet or fewer pods"
        )
    return {
        "type": "host-local",
        "subnet": subnet,
        "rangeStart": str(ipaddress.IPv4Address(first)),
        "rangeEnd": str(ipaddress.IPv4Address(last)),
    }


def plugin(config: Object, name: str, share: Object) -> Object:
    """Return the CNI configuration of a pod's interface.

    :param config: configuration of this node.
    :param share: IPAM section, the node's range of addresses.
    """
    if config["kind"] == "vf":
        # Multus adds the device that the kubelet has allocated.
        return {"type": "host-device", "ipam": share}
    return {
        "type": config["kind"],
        "master": name,
        "mode": config["mode"],
        "ipam": share,
    }


def write(path: pathlib.Path, document: Object) -> None:
    """Write a JSON document atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document, indent=2) + "\n")
    draft.rename(path)


def main() -> None:
    """Write the files of all networks."""
    config = json.loads(CONFIG.read_text())
    shown = subprocess.run(
        ("cloud-init", "query", "ds.network_json"),
        check=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
        timeout=PROGRAM_S,
    )
    data = json.loads(shown.stdout)
    resources: list[Object] = []
    for each in config["networks"]:
        macs = links(data, each["id"])
        if not macs:
            raise Unfit(f"the server has no port on network {each['id']}")
        names = [device(mac) for mac in macs]
        share = ipam(each["subnet"], config["pods"], address(names[0]))
        write(
            MULTUS / f"{each['name']}.conf",
            dict(
                plugin(config, names[0], share),
                cniVersion="0.3.1",
                name=each["name"],
            ),
        )
        resources.append(
            {
                "resourceName": each["resource"],
                "resourcePrefix": RESOURCE_PREFIX,
                "selectors": [
                    {"pciAddresses": [_pci(name) for name in names]}
                ],
            }
        )
    if config["kind"] == "vf":
        write(DEVICE_PLUGIN, {"resourceList": resources})


def _pci(name: str) -> str:
    return (ROOT / "sys/class/net" / name / "device").resolve().name


if __name__ == "__main__":
    try:
        main()
    except (Unfit, OSError, LookupError, TypeError, ValueError) as error:
        sys.exit(f"sriov-rt: {type(error).__name__}: {error}")
    except subprocess.SubprocessError as error:
        sys.exit(f"sriov-rt: {error}")
