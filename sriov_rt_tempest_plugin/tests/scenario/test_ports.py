# SPDX-License-Identifier: Apache-2.0

"""Ports that sriov-rt makes: they carry packets and leave clean VFs."""

import base64
import io
import ipaddress
import textwrap
from typing import Any

from tempest import config
from tempest.lib import decorators
from tempest.lib.common.utils import data_utils
from tempest.lib.common.utils import test_utils

from sriov_rt_tempest_plugin.tests import base
from sriov_rt_tempest_plugin.tests import domain

CONF = config.CONF

#: Neutron's VIF type of ports that sriov-rt made.
VIF_TYPE = "sriov_rt"

#: Settings of an idle VF; its other settings depend on the NIC.
BASELINE = {
    "mac": "00:00:00:00:00:00",
    "vlan": 0,
    "qos": 0,
    "spoofchk": True,
    "trust": False,
    "min_tx_rate": 0,
    "max_tx_rate": 0,
}

#: The name of a port's interface, on its host and in a container: this prefix
#: and so many characters of its id.
PREFIX, CHARACTERS = "srt", 11

#: Script for a guest that can only be configured by user data.
_USER_DATA = """\
    #!/bin/sh
    for device in /sys/class/net/*; do
        if [ "$(cat "$device/address")" = "{mac}" ]; then
            name=${{device##*/}}
        fi
    done
    ip address add "{address}" dev "$name"
    ip link set "$name" up
    until ping -c 1 -W 5 "{peer}"; do sleep 1; done
    echo "{reached} {peer}" > /dev/console
"""


#: The same for guest_command, which is run until the peer has answered.
_SCRIPT = """\
    ip address add "{address}" dev "{name}" 2>/dev/null
    ip link set "{name}" up
    ping -c 1 -W 5 "{peer}" && echo "{reached} {peer}"
    exit 0
"""


class PortsTest(base.ExclusiveTest):
    """A test that makes networks and ports as an administrator."""

    @classmethod
    def setup_clients(cls) -> None:
        """Name the clients of the network."""
        super().setup_clients()
        cls.networks = cls.os_admin.networks_client
        cls.subnets = cls.os_admin.subnets_client
        cls.ports = cls.os_admin.ports_client

    def network(self, physical_network: str, kind: str) -> str:
        """Make a network that is deleted after the test; return its id.

        :param physical_network: its physical network.
        :param kind: flat or vlan.
        """
        made = self.networks.create_network(
            name=self.name(),
            shared=True,
            port_security_enabled=False,
            **{
                "provider:network_type": kind,
                "provider:physical_network": physical_network,
            },
        )["network"]["id"]
        self.addCleanup(
            test_utils.call_and_ignore_notfound_exc,
            self.networks.delete_network,
            made,
        )
        self.subnets.create_subnet(
            name=self.name(),
            network_id=made,
            ip_version=4,
            cidr=CONF.sriov_rt.port_cidr,
            gateway_ip=None,
            enable_dhcp=False,
        )
        return str(made)

    def port(self, network: str, **fields: Any) -> dict[str, Any]:
        """Make a port for the user that is deleted after the test.

        :param network: its network's id.
        :param fields: further fields of the port.
        """
        made: dict[str, Any] = self.ports.create_port(
            name=self.name(),
            network_id=network,
            project_id=self.os_primary.credentials.project_id,
            **fields,
        )["port"]
        self.addCleanup(
            test_utils.call_and_ignore_notfound_exc,
            self.ports.delete_port,
            made["id"],
        )
        return made

    def port_flavor(self) -> dict[str, Any]:
        """Make a flavor whose servers land on hosts for such ports."""
        if CONF.sriov_rt_feature_enabled.realtime:
            return self.realtime_flavor()
        return self.flavor({"sriov_rt:guest": "lean"})

    def bound(self, port: dict[str, Any]) -> dict[str, Any]:
        """Return the current state of a port, with its binding.

        :param port: a port from port().
        """
        found: dict[str, Any] = self.ports.show_port(port["id"])["port"]
        return found

    def name(self) -> str:
        """Return a unique name."""
        return str(
            data_utils.rand_name(
                prefix=CONF.resource_name_prefix, name=type(self).__name__
            )
        )

    def vfs(self, host: str) -> dict[str, dict[str, Any]]:
        """Return the VFs of a host by their PCI addresses.

        :param host: its name.
        """
        found = base.run_json("vf_list_command", host=host)
        return {each["vf"]["address"]: each for each in found}

    def dirty(self, host: str) -> set[str]:
        """Return the VFs of a host that differ from the baseline.

        :param host: its name.
        """
        return {
            address
            for address, each in self.vfs(host).items()
            if each["alias"]
            or {name: each["settings"][name] for name in BASELINE} != BASELINE
        }

    def all_dirty(self) -> dict[str, set[str]]:
        """Return the VFs of each host that are in use already.

        The result is empty if no command lists VFs.
        """
        if not CONF.sriov_rt.vf_list_command:
            return {}
        return {host: self.dirty(host) for host in self.hosts()}

    def wait_clean(self, host: str, but: set[str]) -> None:
        """Wait until the VFs of a host are clean.

        :param host: its name.
        :param but: VFs that are in use by others.
        """
        self.wait_until(
            f"the VFs of {host} are clean",
            lambda: self.dirty(host) <= but,
            CONF.sriov_rt.facts_timeout,
        )


class ReachTest(PortsTest):
    """Two servers on a network of sriov-rt reach each other."""

    @decorators.idempotent_id("adf34141-58b8-4d1c-a0d2-7cc1d482ba44")
    def test_macvlan(self) -> None:
        self.reach("macvlan")

    @decorators.idempotent_id("ea7b24a2-bfe9-4c04-ba43-120039dd3de7")
    def test_ipvlan(self) -> None:
        self.reach("ipvlan")

    @decorators.idempotent_id("a6a8c5a5-20b9-474a-b337-1ded7761dff2")
    def test_vf(self) -> None:
        self.reach("vf")

    def reach(self, kind: str) -> None:
        """Boot two servers that look for each other.

        :param kind: kind of their ports.
        """
        physical_network = self.physical_network(kind)
        network = self.network(
            physical_network, CONF.sriov_rt.port_network_type
        )
        flavor = self.port_flavor()
        ports = [self.port(network) for _ in range(2)]
        peers = [each["fixed_ips"][0]["ip_address"] for each in ports]
        before = self.all_dirty()
        servers = []
        for port, peer in zip(ports, reversed(peers), strict=True):
            server = self.boot(
                flavor,
                networks=[{"port": port["id"]}],
                **self.looking_for(port, peer),
            )
            # A container is ACTIVE before its ports: libvirt does not start
            # it paused, and Nova waits for ports of paused guests only.
            self.wait_until(
                f"port {port['id']} is ACTIVE",
                lambda port=port: self.bound(port)["status"] == "ACTIVE",
                CONF.compute.build_timeout,
            )
            now = self.bound(port)
            self.assertEqual(
                (VIF_TYPE, server["OS-EXT-SRV-ATTR:host"]),
                (now["binding:vif_type"], now["binding:host_id"]),
            )
            self.assert_in_domain(server, port)
            servers.append(server)
        ends = list(zip(servers, ports, reversed(peers), strict=True))
        self.wait_until(
            f"servers {' and '.join(each['id'] for each in servers)} reach "
            "each other",
            # Run both each time, since that configures a container's address.
            lambda: {True} == {self.reaches(*each) for each in ends},
            CONF.sriov_rt.guest_timeout,
        )
        for server in servers:
            self.delete(server["id"])
        for host, dirty in before.items():
            self.wait_clean(host, but=dirty)

    def physical_network(self, kind: str) -> str:
        """Return the physical network for a kind of port, or skip.

        :param kind: macvlan, ipvlan or vf.
        """
        for each in CONF.sriov_rt.port_networks:
            found, _, name = each.partition(":")
            if found == kind:
                return str(name)
        self.skipTest(f"[sriov_rt] port_networks names none of kind {kind}")
        raise AssertionError

    def looking_for(self, port: dict[str, Any], peer: str) -> dict[str, Any]:
        """Return what makes a guest set its address and look for a peer.

        :param port: the guest's port.
        :param peer: the address of the other guest.
        :returns: fields of the request for a server.
        """
        if CONF.sriov_rt.guest_command:
            return {}
        address = self.address(port)
        arguments = CONF.sriov_rt.guest_kernel_arguments
        if arguments:
            for name, value in (("address", address), ("peer", peer)):
                arguments = arguments.replace(f"{{{name}}}", value)
            return {"imageRef": self.image_with(arguments)}
        script = textwrap.dedent(_USER_DATA).format(
            mac=port["mac_address"],
            address=address,
            peer=peer,
            reached=CONF.sriov_rt.guest_reached,
        )
        return {
            "config_drive": True,
            "user_data": base64.b64encode(script.encode()).decode(),
        }

    def address(self, port: dict[str, Any]) -> str:
        """Return the address of a port, with its prefix length.

        :param port: a port from port().
        """
        size = ipaddress.ip_network(CONF.sriov_rt.port_cidr).prefixlen
        return f"{port['fixed_ips'][0]['ip_address']}/{size}"

    def image_with(self, arguments: str) -> str:
        """Copy the image with more kernel arguments, and return its id.

        :param arguments: the added arguments.
        """
        client = self.admin_image_client
        like = client.show_image(CONF.compute.image_ref)
        line = f"{like.get('os_command_line', '')} {arguments}".strip()
        properties = {
            key: value
            for key, value in like.items()
            if key.startswith(("hw_", "os_")) and isinstance(value, str)
        }
        for key in ("kernel_id", "ramdisk_id"):
            if like.get(key):
                properties[key] = like[key]
        made = client.create_image(
            name=self.name(),
            visibility="public",
            disk_format=like["disk_format"],
            container_format=like["container_format"],
            **{**properties, "os_command_line": line},
        )["id"]
        self.addCleanup(
            test_utils.call_and_ignore_notfound_exc, client.delete_image, made
        )
        content = client.show_image_file(like["id"]).data
        client.store_image_file(made, io.BytesIO(content))
        return str(made)

    def reaches(
        self, server: dict[str, Any], port: dict[str, Any], peer: str
    ) -> bool:
        """Return whether a guest reports that it has reached its peer.

        :param server: the server as an administrator sees it.
        :param port: its port.
        :param peer: the address of the other guest.
        """
        reached = CONF.sriov_rt.guest_reached
        if CONF.sriov_rt.guest_command:
            script = textwrap.dedent(_SCRIPT).format(
                name=interface(port),
                address=self.address(port),
                peer=peer,
                reached=reached,
            )
            said = base.run(
                "guest_command",
                script,
                host=server["OS-EXT-SRV-ATTR:host"],
                name=server["OS-EXT-SRV-ATTR:instance_name"],
            )
        else:
            client = self.admin_servers_client
            said = client.get_console_output(server["id"])["output"] or ""
        return f"{reached} {peer}" in said

    def assert_in_domain(
        self, server: dict[str, Any], port: dict[str, Any]
    ) -> None:
        """Check that a guest's interface is the port, if its XML can be read.

        :param server: the server as an administrator sees it.
        :param port: the port.
        """
        if CONF.sriov_rt.domain_xml_command:
            found = domain.Domain(server)
            of_a_machine = found.interfaces().get(port["mac_address"])
            self.assertIn(
                interface(port),
                [of_a_machine, *found.moved_interfaces],
                found.text,
            )


def interface(port: dict[str, Any]) -> str:
    """Return the name of a port's interface.

    :param port: a port from port().
    """
    return f"{PREFIX}{port['id'][:CHARACTERS]}"


class CleanVfTest(PortsTest):
    """VFs that Nova passes through are clean for the next owner."""

    @classmethod
    def skip_checks(cls) -> None:
        """Skip without such VFs, or if no command lists them."""
        super().skip_checks()
        for option in ("direct_physical_network", "vf_list_command"):
            if not getattr(CONF.sriov_rt, option):
                raise cls.skipException(f"[sriov_rt] {option} is not set")

    @decorators.idempotent_id("fa5d3a5c-e06d-49c4-9074-89e1a7454d0a")
    def test_a_vf_is_clean_for_its_next_owner(self) -> None:
        network = self.network(CONF.sriov_rt.direct_physical_network, "vlan")
        flavor = self.port_flavor()
        before = self.all_dirty()
        for _ in range(2):
            port = self.port(network, **{"binding:vnic_type": "direct"})
            server = self.boot(flavor, networks=[{"port": port["id"]}])
            slot = self.bound(port)["binding:profile"]["pci_slot"]
            host = server["OS-EXT-SRV-ATTR:host"]
            vf = self.vfs(host)[slot]
            settings = vf["settings"]
            self.assertEqual(
                (port["mac_address"], False, 0),
                (settings["mac"], settings["trust"], settings["qos"]),
            )
            self.assertNotEqual(0, settings["vlan"])
            if CONF.sriov_rt.vf_disturb_command:
                base.run(
                    "vf_disturb_command",
                    host=host,
                    pf=vf["vf"]["pf"],
                    index=str(vf["vf"]["index"]),
                )
            self.delete(server["id"])
            self.wait_clean(host, but=before[host] - {slot})
