# SPDX-License-Identifier: Apache-2.0

"""Options of the plugin, in tempest.conf."""

from collections.abc import Sequence

from oslo_config import cfg

service_available_group = cfg.OptGroup(
    "service_available", title="Available OpenStack services"
)
group = cfg.OptGroup("sriov_rt", title="sriov-rt")
feature_group = cfg.OptGroup(
    "sriov_rt-feature-enabled", title="Features of sriov-rt to test"
)

SERVICE_AVAILABLE = (
    cfg.BoolOpt(
        "sriov_rt",
        default=False,
        help="Whether the cloud runs sriov-rt: its extra-spec validators in "
        "nova-api, its filter and weigher in nova-scheduler, and its compute "
        "driver and agent on the hosts. Without it, all tests of the plugin "
        "are skipped.",
    ),
)

OPTIONS = (
    cfg.ListOpt(
        "realtime_hosts",
        default=[],
        help="Host names of the realtime compute hosts, as Nova knows them. "
        "Empty for those that have the trait CUSTOM_SRIOV_RT_REALTIME in "
        "Placement when a test begins.",
    ),
    cfg.ListOpt(
        "realtime_extra_specs",
        default=[
            "hw:cpu_policy=dedicated",
            "hw:cpu_realtime=yes",
            "hw:emulator_threads_policy=share",
            "hw:mem_page_size=large",
        ],
        help="Extra specs, as KEY=VALUE, that a realtime flavor has beside "
        "those of sriov-rt. They are Nova's own: change them where the "
        "realtime hosts have no huge pages, or need hw:cpu_realtime_mask.",
    ),
    cfg.IntOpt(
        "server_ram",
        default=0,
        min=0,
        help="MiB of memory of the servers of the tests. 0 for as much as "
        "the flavor [compute] flavor_ref has, as its disk is used.",
    ),
    cfg.StrOpt(
        "bare_image_ref",
        help="An image that boots without any virtio device: its properties "
        "name another bus and NIC, as in hw_disk_bus=sata and "
        "hw_vif_model=e1000. Without it the tests of sriov_rt:guest=bare that "
        "boot a server are skipped.",
    ),
    cfg.ListOpt(
        "port_networks",
        default=[],
        help="Physical networks whose ports sriov-rt makes, each as "
        "KIND:NAME with KIND one of macvlan, ipvlan, vf, as in "
        "macvlan:physnet2: the kind that neutron-server has for it in "
        "[ml2_sriov_rt]. One for each kind to test; other kinds are skipped. "
        "A virtual machine can have macvlan alone, a container each of them.",
    ),
    cfg.StrOpt(
        "port_network_type",
        default="vlan",
        choices=("flat", "vlan"),
        help="Type of the networks that tests make on port_networks. With "
        "flat no other network may be on them.",
    ),
    cfg.StrOpt(
        "direct_physical_network",
        help="A physical network with VFs that Nova passes through "
        "(VNIC type direct), and whose SR-IOV agent loads the extension "
        "sriov_rt. Without it the test of a clean VF is skipped.",
    ),
    cfg.StrOpt(
        "port_cidr",
        default="192.0.2.0/24",
        help="Addresses of the networks that tests make on port_networks. "
        "Nothing else on the physical networks may use them.",
    ),
    cfg.StrOpt(
        "guest_kernel_arguments",
        help="Kernel arguments by which a guest of [compute] image_ref takes "
        "an address and looks for a peer; {address} (with prefix length) and "
        "{peer} are filled in. It is for images that boot a kernel of their "
        "own (kernel_id): the test makes a copy of the image with "
        "them in os_command_line. Unset, the guest is given a shell script "
        "as user data on a config drive, which needs an image that runs it.",
    ),
    cfg.StrOpt(
        "guest_command",
        help="Command that runs in a guest the shell script that it reads "
        "from its standard input, as in 'ssh {host} sudo virsh -c lxc:/// "
        "lxc-enter-namespace --noseclabel {name} /bin/sh'. By it the test "
        "gives the guest its address and looks for the peer, with the "
        "guest's own ip and ping. It is for containers, which have no kernel "
        "arguments and no config drive, and goes before "
        "guest_kernel_arguments.",
    ),
    cfg.StrOpt(
        "guest_reached",
        default="SRIOV-RT-GUEST-REACHED",
        help="What the guest writes on its console, the peer's address "
        "after it, when the peer answered.",
    ),
    cfg.StrOpt(
        "domain_xml_command",
        help="Command that prints the XML of a running domain, as in "
        "'ssh {host} sudo virsh dumpxml {name}'. {host} is the compute host, "
        "{name} the domain. It is split like a shell command line, but no "
        "shell runs it. Without it, tests that look into the domain are "
        "skipped.",
    ),
    cfg.StrOpt(
        "explain_command",
        help="Command that prints as JSON which hosts satisfy a flavor, as "
        "in 'ssh controller sriov-rt explain --flavor {flavor} --json'. "
        "Without it, the tests of explain are skipped.",
    ),
    cfg.StrOpt(
        "vf_list_command",
        help="Command that prints the VFs of a host as JSON, as in "
        "'ssh {host} sudo sriov-rt vf list --json'. Without it the test of "
        "a clean VF is skipped.",
    ),
    cfg.StrOpt(
        "vf_disturb_command",
        help="Command that changes settings of a VF as nobody ought to, as "
        "in 'ssh {host} sudo ip link set {pf} vf {index} trust on mac "
        "02:00:5e:66:66:66 vlan 299 qos 3'. Without it the test of a clean "
        "VF changes nothing but what Nova and Neutron do.",
    ),
    cfg.StrOpt(
        "degrade_command",
        help="Command that makes a realtime host lose the trait "
        "CUSTOM_SRIOV_RT_REALTIME, as in "
        "'ssh {host} sudo sysctl -w kernel.sched_rt_runtime_us=950000'. "
        "Without it, and restore_command, tests of a degraded host are "
        "skipped.",
    ),
    cfg.StrOpt(
        "restore_command",
        help="Command that undoes degrade_command, as in "
        "'ssh {host} sudo sysctl -w kernel.sched_rt_runtime_us=-1'.",
    ),
    cfg.IntOpt(
        "command_timeout",
        default=120,
        min=1,
        help="Seconds that any of these commands may take.",
    ),
    cfg.IntOpt(
        "facts_timeout",
        default=120,
        min=1,
        help="Seconds from a change of a host to Placement's having its "
        "traits. It is at least the agent's [sriov_rt] interval; raise it "
        "where hosts are busy.",
    ),
    cfg.IntOpt(
        "guest_timeout",
        default=300,
        min=1,
        help="Seconds from a server being ACTIVE to its guest having "
        "reached another one.",
    ),
)

FEATURES = (
    cfg.BoolOpt(
        "realtime",
        default=True,
        help="Whether a compute host is a realtime one. Otherwise tests with "
        "realtime servers are skipped, and ports are tested with others.",
    ),
    cfg.BoolOpt(
        "cold_migration",
        default=False,
        help="Whether a realtime server can be migrated while it is shut "
        "down. It needs two realtime hosts that reach each other by SSH.",
    ),
    cfg.BoolOpt(
        "live_migration",
        default=False,
        help="Whether a realtime server can be migrated while it runs. It "
        "needs two realtime hosts.",
    ),
    cfg.BoolOpt(
        "resize",
        default=True,
        help="Whether a realtime server can be resized. With one realtime "
        "host it needs [DEFAULT] allow_resize_to_same_host in nova.conf.",
    ),
    cfg.BoolOpt(
        "rescue",
        default=True,
        help="Whether a realtime server can be rescued.",
    ),
    cfg.BoolOpt(
        "shelve",
        default=True,
        help="Whether a realtime server can be shelved. It is offloaded at "
        "once or when the test asks for it, and comes back from its snapshot.",
    ),
)

GROUPS: Sequence[tuple[cfg.OptGroup, Sequence[cfg.Opt]]] = (
    (service_available_group, SERVICE_AVAILABLE),
    (group, OPTIONS),
    (feature_group, FEATURES),
)
