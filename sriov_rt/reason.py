# SPDX-License-Identifier: Apache-2.0

"""Reasons: why a host or a guest does not satisfy a Request."""

import dataclasses
import enum
import types
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

#: Separator of the problem and its remedy in a sentence.
REMEDY = "; "


class Fault(enum.StrEnum):
    """The side that must change before the Request can be satisfied."""

    HOST = "host"
    REQUEST = "request"


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a host or guest does not satisfy a Request.

    :param code: stable name for programs; a key of :data:`SENTENCES`.
    :param fields: the values in the sentence; JSON values only.
    :param message: a sentence for the operator that says what to do.
    :param remedy: the part of the message that says what to do.
    """

    code: str
    message: str
    fields: Mapping[str, Any]
    remedy: str = ""

    @property
    def problem(self) -> str:
        """The message without its remedy."""
        return self.message.removesuffix(f"{REMEDY}{self.remedy}")

    @property
    def fault(self) -> Fault:
        """The side at fault; see :data:`REQUEST_FAULTS`."""
        return Fault.REQUEST if self.code in REQUEST_FAULTS else Fault.HOST

    def to_plain(self) -> dict[str, Any]:
        """Return the Reason as a JSON object."""
        return {
            "code": self.code,
            **self.fields,
            "message": self.message,
            "remedy": self.remedy,
        }


#: Codes of problems that no host can solve: the flavor, the image or the
#: domain has to change. Every other code is a fault of one host, and another
#: host may satisfy the Request. Codes of :mod:`sriov_rt.guest.sentences`,
#: :mod:`sriov_rt.onload.sentences` and :mod:`sriov_rt.pods.sentences` are
#: included.
REQUEST_FAULTS: frozenset[str] = frozenset(
    {
        "request_invalid",
        "cpu_policy_mixed",
        "cpu_policy_not_dedicated",
        "memory_not_whole_pages",
        # the guest
        "console_on_virtio",
        "container_unpinned",
        "device_on_virtio",
        "disk_on_virtio",
        "domain_differs",
        "domain_rejected",
        "emulator_on_vcpus",
        "filesystem_on_virtio",
        "iommu_on_virtio",
        "iothreads_on_vcpus",
        "kept_on_virtio",
        "nic_needs_virtio",
        "nic_on_virtio",
        "pinning_beyond",
        "pins_differ",
        "realtime_unset",
        "vcpus_share_pcpus",
        "vcpusched_beyond",
        "vcpus_unpinned",
        # Onload
        "onload_glibc_floor",
        "onload_init_static",
        "onload_init_unreadable",
        "onload_libc_missing",
        "onload_mount_taken",
        "onload_musl",
        "onload_other_architecture",
        # the pod
        "pod_class_missing",
        "pod_class_without_onload",
        "pod_class_without_vf",
        "pod_network_missing",
        "pod_vf_not_requested",
    }
)

#: The operator's sentence of each code, a template with fields.
SENTENCES: Mapping[str, str] = types.MappingProxyType(
    {
        "request_invalid": (
            "the flavor's extra specs are invalid ({problems}); correct them "
            "with 'openstack --os-compute-api-version 2.86 flavor set', which "
            "refuses a bad value"
        ),
        "facts_missing": (
            "no facts from this host; start sriov-rt-agent on it and check "
            "that it reaches the message queue"
        ),
        "agents_of_one_name": (
            "two agents report as this host ({agents}); remove [DEFAULT] host "
            "from a copied sriov-rt.conf and restart sriov-rt-agent there"
        ),
        "facts_stale": (
            "the last facts are {age_s} s old, {max_age_s} s is the limit; "
            "check that sriov-rt-agent runs and reaches the message queue"
        ),
        "fact_unknown": (
            "{fact} is unknown ({why}); check that it is there and that "
            "sriov-rt-agent can read it"
        ),
        "host_on_hold": (
            "{who} put this host on hold at {since} ({why}), {end}; "
            "run 'sriov-rt host release' there once it may serve again"
        ),
        "cpu_policy_mixed": (
            "hw:cpu_policy=mixed leaves some vCPUs on shared pCPUs, and "
            "sriov_rt:realtime needs each on its own; set "
            "hw:cpu_policy=dedicated, and hw:cpu_realtime_mask for the vCPUs "
            "that need not be realtime"
        ),
        "cpu_policy_not_dedicated": (
            "sriov_rt:realtime needs pinned vCPUs; set "
            "hw:cpu_policy=dedicated on the flavor and unset its "
            "resources:VCPU"
        ),
        "compute_driver_missing": (
            "no nova-compute with sriov-rt's driver runs on this host, and "
            "Nova's own leaves out what the flavor asks; set [DEFAULT] "
            "compute_driver = sriov_rt.RealtimeLibvirtDriver in nova.conf and "
            "restart nova-compute"
        ),
        "dedicated_unset": (
            "no pCPUs are dedicated; set [compute] cpu_dedicated_set in "
            "nova.conf to the isolated CPUs ({isolated}) and restart "
            "nova-compute"
        ),
        "pcpus_too_few": (
            "{pcpus} pCPUs are dedicated, and the flavor has {vcpus} vCPUs; "
            "dedicate more in [compute] cpu_dedicated_set, or give the flavor "
            "fewer"
        ),
        "huge_pages_missing": (
            "no huge page ({size}) is reserved, which hw:mem_page_size asks "
            "for; boot with hugepagesz={wanted} hugepages=N, or change "
            "hw:mem_page_size"
        ),
        "memory_not_whole_pages": (
            "{memory_mib} MiB of memory is not a multiple of the {size} page, "
            "which Nova refuses; change the flavor's RAM or hw:mem_page_size"
        ),
        "huge_pages_too_few": (
            "{found_mib} MiB of huge pages ({size}) are reserved, and the "
            "flavor has {memory_mib} MiB of memory; boot with a larger "
            "hugepages=, or give the flavor less"
        ),
        "nothing_isolated": (
            "no CPU is isolated; boot with isolcpus=managed_irq,domain,{cpus} "
            "nohz_full={cpus}"
        ),
        "cpus_not_isolated": (
            "dedicated pCPUs {cpus} are not isolated; boot with "
            "isolcpus=managed_irq,domain,{wanted}, or make {cgroup} an "
            "isolated partition (cpuset.cpus.partition) that has them and a "
            "housekeeping CPU"
        ),
        "cpus_not_tick_free": (
            "dedicated pCPUs {cpus} have the scheduler's tick; boot with "
            "nohz_full={wanted}"
        ),
        "cpus_not_rcu_free": (
            "dedicated pCPUs {cpus} run RCU callbacks; boot with "
            "rcu_nocbs={wanted}"
        ),
        "cpus_offline": (
            "dedicated pCPUs {cpus} are offline; write 1 to "
            "/sys/devices/system/cpu/cpuN/online or take them out of "
            "cpu_dedicated_set"
        ),
        "cpus_stay_offline": (
            "Nova cannot bring dedicated pCPUs {cpus} online (there is no "
            "/sys/devices/system/cpu/cpuN/online); take them out of "
            "[compute] cpu_dedicated_set in nova.conf"
        ),
        "cores_unknown": (
            "dedicated pCPUs {cpus} are offline, and may share cores with "
            "CPUs of the host; leave whole cores "
            "to the host (all hyper-threads of each), or turn SMT off in the "
            "firmware or with nosmt"
        ),
        "cpus_in_other_partition": (
            "dedicated pCPUs {cpus} are out of reach of libvirt's guests in "
            "{cgroup}, since the cpuset partition {partition} has them; take "
            "them out of its cpuset.cpus, or out of [compute] "
            "cpu_dedicated_set in nova.conf"
        ),
        "cpus_outside_cgroup": (
            "dedicated pCPUs {cpus} are out of reach of libvirt's guests, "
            "since {cgroup} does not have them (cpuset.cpus); add them to "
            "its AllowedCPUs= with 'systemctl set-property', or take them "
            "out of [compute] cpu_dedicated_set in nova.conf"
        ),
        "cpus_outside_cpuset": (
            "dedicated pCPUs {cpus} are out of reach of libvirt's guests, "
            "since {cgroup} does not have them; write {wanted} to its "
            "cpuset.cpus, or take them out of [compute] cpu_dedicated_set in "
            "nova.conf"
        ),
        "cpus_exclusive": (
            "dedicated pCPUs {cpus} are out of reach of libvirt's guests, "
            "since {partition} has them exclusively (cpuset.cpu_exclusive); "
            "take them out of its cpuset.cpus and write {wanted} to "
            "{cgroup}/cpuset.cpus, or take them out of [compute] "
            "cpu_dedicated_set in nova.conf"
        ),
        "partition_invalid": (
            "the cpuset partition {cgroup} of libvirt's guests is "
            "'{partition}'; remove what the kernel names, and read its "
            "cpuset.cpus.partition again"
        ),
        "cgroup_without_housekeeping": (
            "{cgroup}, where libvirt runs guests, has dedicated pCPUs only, "
            "and none for emulator threads; add a housekeeping CPU to its "
            "AllowedCPUs= or cpuset.cpus"
        ),
        "no_housekeeping": (
            "every online CPU is dedicated; leave at least one CPU out of "
            "cpu_dedicated_set for the host itself"
        ),
        "all_isolated": (
            "every online CPU is isolated; leave at least one CPU out of "
            "isolcpus for the host itself"
        ),
        "siblings_shared": (
            "pCPUs {cpus} share a core with CPUs that are not dedicated; set "
            "[compute] cpu_dedicated_set in nova.conf to {wanted} and boot "
            "with isolcpus=managed_irq,domain,{wanted} nohz_full={wanted}"
        ),
        "irqs_on_dedicated": (
            "interrupts{irqs} are routed to dedicated pCPUs {cpus}; boot "
            "with irqaffinity={wanted}, or write {wanted} to "
            "/proc/irq/N/smp_affinity_list of each"
        ),
        "pcpus_occupied": (
            "{who} {does} dedicated pCPUs {cpus}{share}; {owner}, or take "
            "them out of [compute] cpu_dedicated_set in nova.conf"
        ),
        "pcpus_exposed": "{who} may run on pCPUs for guests {cpus}; {owner}",
        "pcpus_left_out": (
            "{who} {does} pCPUs {cpus}{share}, which no guest is given; "
            "{owner}"
        ),
        "threads_unread": (
            "{count} threads may run on dedicated pCPUs and could not be "
            "inspected; run it as root"
        ),
        "sched_ext_on": (
            "a BPF scheduler (sched_ext) is loaded and may run tasks on "
            "dedicated pCPUs {cpus}; stop its service, such as scx"
        ),
        "rt_throttled": (
            "realtime tasks are throttled to {runtime_us} µs of {period_us} "
            "µs; run 'sysctl -w kernel.sched_rt_runtime_us=-1' and keep it "
            "in /etc/sysctl.d"
        ),
        "timers_migrate": (
            "timers of idle CPUs move between CPUs; run 'sysctl -w "
            "kernel.timer_migration=0' and keep it in /etc/sysctl.d"
        ),
        "nmi_watchdog_on": (
            "the NMI watchdog interrupts every CPU; run 'sysctl -w "
            "kernel.nmi_watchdog=0' and keep it in /etc/sysctl.d"
        ),
        "frequency_varies": (
            "the frequency of dedicated pCPUs {cpus} is changed by governor "
            "'{governor}', and each change stalls them; run 'cpupower -c "
            "{cpus} frequency-set -g performance' and keep it in a tuned "
            "profile"
        ),
        "governor_high_varies": (
            "Nova gives the pCPUs {cpus} of guests governor '{governor}', "
            "which changes their frequency, and each change stalls them; set "
            "[libvirt] cpu_power_governor_high=performance in nova.conf and "
            "restart nova-compute"
        ),
        "governor_missing": (
            "Nova is to change the governor of dedicated pCPUs {cpus}, and "
            "this kernel has no governors; set [libvirt] "
            "cpu_power_management_strategy=cpu_state in nova.conf and "
            "restart nova-compute"
        ),
        "idle_too_deep": (
            "dedicated pCPUs {cpus} may enter idle state {state}, which "
            "takes {latency_us} µs to leave (the limit is {limit_us} µs); "
            "write n/a to power/pm_qos_resume_latency_us of each in "
            "/sys/devices/system/cpu and keep it in a tuned profile"
        ),
        "workqueues_on_dedicated": (
            "the kernel's unbound work may run on dedicated pCPUs {cpus}; "
            "run 'echo {mask} > /sys/devices/virtual/workqueue/cpumask' and "
            "keep it in a tuned profile"
        ),
        "watchdog_on_dedicated": (
            "the soft lockup watchdog interrupts dedicated pCPUs {cpus} "
            "every 4 s; run 'sysctl -w kernel.watchdog_cpumask={wanted}' and "
            "keep it in /etc/sysctl.d"
        ),
        "irqs_default_on_dedicated": (
            "the interrupts of the next device or VF may be routed to "
            "dedicated pCPUs {cpus}; boot with irqaffinity={wanted}"
        ),
        "smt_on": (
            "hyper-threads of one core slow each other down, even if both "
            "are dedicated; turn SMT off in the firmware, and dedicate the "
            "CPUs that remain"
        ),
        "clock_slow": (
            "the clock source is {clock}, which takes microseconds to read; "
            "boot with clocksource=tsc tsc=reliable if the CPU has "
            "constant_tsc and nonstop_tsc (/proc/cpuinfo)"
        ),
        "swap_on": (
            "memory is swapped to {devices}, and a guest waits for what was "
            "swapped out; run 'swapoff -a' and boot with systemd.swap=0, or "
            "disable the service that makes it"
        ),
        "zram_on": (
            "memory is swapped to {devices}, which costs CPU time and makes "
            "guests wait; run 'swapoff -a' and boot with systemd.zram=0"
        ),
        "zram_unmanaged": (
            "memory is swapped to {devices}, which costs CPU time and makes "
            "guests wait; run 'swapoff -a' and disable what makes it (boot "
            "with systemd.zram=0 for zram-generator, or disable a service "
            "such as zramswap)"
        ),
        "command_line_too_long": (
            "the planned kernel command line has {length} characters, and the "
            "kernel drops what is beyond {limit}; take arguments off it that "
            "are not needed"
        ),
        "command_line_by_hand": (
            "no way of this distribution to change the kernel's command line "
            "is known; add {arguments} in the boot loader's "
            "configuration{removed}"
        ),
        "nova_by_hand": (
            "nova.conf has to change with the CPUs of guests; set {options} "
            "in nova.conf and restart nova-compute"
        ),
        "tuned_disabled": (
            "tuned is not started at boot, and its profile would have no "
            "effect; run 'systemctl enable tuned'"
        ),
        "ksm_running": (
            "KSM merges and unmerges guest pages; run 'echo 2 > "
            "/sys/kernel/mm/ksm/run' and stop ksmtuned"
        ),
        "thp_always": (
            "transparent huge pages are 'always', and khugepaged can stall "
            "guests; boot with transparent_hugepage=never"
        ),
        "thp_madvise": (
            "transparent huge pages are 'madvise', and QEMU asks for them, "
            "so that khugepaged can stall guests; boot with "
            "transparent_hugepage=never"
        ),
        "kernel_not_rt": (
            "kernel {release} is not PREEMPT_RT; boot a realtime kernel "
            "({package})"
        ),
        "labels_mismatch": (
            "labels do not match '{selector}': '{requirement}' finds "
            "{found}; correct sriov_rt:node_selector or label the host"
        ),
        "labels_stale": (
            "'{requirement}' cannot be judged: nothing was heard from label "
            "source {source} for longer than [labels] stale_after; read why "
            "in the log of sriov-rt-agent, and restore the source"
        ),
        "label_contradicted": (
            "label {label} is {value} by {source}, and {kernel} by the "
            "kernel, which counts; restart nfd-worker on the host, or take "
            "the label off the Node with 'kubectl label node NODE {label}-'"
        ),
        "nic_missing": ("no {nic} NIC; add one, or change sriov_rt:nic"),
        "host_without_nic": (
            "this host has no {nic} NIC; add one, or check another --mode"
        ),
        "nic_not_ethernet": (
            "no {nic} NIC is on Ethernet ({links}); add one that is, or set "
            "the type of an InfiniBand port to Ethernet in its NIC's firmware"
        ),
        "parents_missing": (
            "parents of physical network {physical_network} are not on this "
            "host ({parents}); create them, at each boot (VFs with 'sriov-rt "
            "vf provision'), or correct [vif] parents in sriov-rt.conf"
        ),
        "no_vfs": (
            "no VF on {nic} NICs; set [nic] vfs in sriov-rt.conf and run "
            "'sriov-rt vf provision', and enable SR-IOV in the firmware if "
            "sriov_totalvfs is 0"
        ),
        "vfs_without_driver": (
            "none of the VFs {vfs} of {pf} has a network driver; load it "
            "(igbvf, ixgbevf, iavf, sfc), and for each VF that vfio-pci has "
            "run 'driverctl unset-override VF'"
        ),
        "module_missing": (
            "kernel module {module} is not available; install it or boot a "
            "kernel that has it"
        ),
        "iommu_off": (
            "no IOMMU is in use; enable VT-d or AMD-Vi in the firmware and "
            "boot with intel_iommu=on iommu=pt (AMD: iommu=pt)"
        ),
        "kvm_missing": (
            "/dev/kvm is not there; enable virtualisation in the firmware "
            "and load kvm_intel or kvm_amd"
        ),
        "onload_unusable": (
            "Onload is not usable: no {missing}; install Onload and run "
            "'onload_tool reload'"
        ),
        "onload_other_release": (
            "libonload.so is not of the release of the loaded onload module "
            "({version}); install both from one release and run 'onload_tool "
            "reload'"
        ),
        "onload_no_nic": (
            "Onload can use no NIC{where}; add one that it supports, or "
            "register one for AF_XDP (write its name to "
            "/sys/module/sfc_resource/afxdp/register), and name it or its "
            "VFs in [vif] parents"
        ),
        "onload_same_host": (
            "each NIC that Onload can use{where} has an accelerated endpoint "
            "of network {network}, which another one there would not reach; "
            "add hosts or NICs, or set [onload] second_endpoint=unaccelerated"
        ),
        "onload_profile_missing": (
            "the Onload profile {profile} is not on the host; install it, or "
            "change sriov_rt:onload_profile"
        ),
        "latency_uncertified": (
            "no latency certificate; measure the host with 'sriov-rt verify "
            "latency'"
        ),
        "latency_expired": (
            "the latency certificate expired {ago_s} s ago; measure the host "
            "again"
        ),
        "latency_withdrawn": (
            "the latency certificate was withdrawn: {why}; measure the host "
            "again with 'sriov-rt verify latency'"
        ),
        "latency_unmeasured": (
            "dedicated pCPUs {cpus} are not in the latency certificate; "
            "isolate them or take them out of cpu_dedicated_set, then measure "
            "the host again with 'sriov-rt verify latency'"
        ),
        "latency_other_kernel": (
            "the latency certificate is for kernel {certified}, the host "
            "runs {release}; measure the host again"
        ),
        "latency_above": (
            "the certified latency is {certified_us} µs, {wanted_us} µs are "
            "requested; tune the host and measure again, or raise "
            "sriov_rt:max_latency_us"
        ),
        "guest_thread_moved": (
            "thread {thread} ({role}) may run on CPUs {cpus}, and its domain "
            "pins it to {promised}; run 'sriov-rt guest repin {instance}'"
        ),
        "guest_thread_rescheduled": (
            "thread {thread} ({role}) is scheduled as {schedule}, and its "
            "domain says {promised}; run 'sriov-rt guest repin {instance}'"
        ),
        "guest_cpus_not_isolated": (
            "realtime vCPUs are pinned to CPUs {cpus}, which are not "
            "isolated; live-migrate or hard-reboot instance {instance}"
        ),
        "guest_cpu_shared": (
            "thread {thread} ({name}{of}) ran on CPU {cpu} of a realtime "
            "vCPU; move it with 'taskset -p', and keep its service on "
            "housekeeping CPUs (CPUAffinity=)"
        ),
        "guest_memory_unlocked": (
            "no memory is locked, and the domain asks for it (<locked/>); "
            "hard-reboot instance {instance}"
        ),
        "guest_memory_small": (
            "{huge_mib} MiB are on huge pages, and the guest has {size_mib} "
            "MiB; hard-reboot instance {instance}"
        ),
        "guest_device_forbidden": (
            "{device} is virtio, which sriov_rt:guest=bare forbids; detach it "
            "with 'virsh detach-device', or hard-reboot instance {instance}"
        ),
        "guest_device_lost": (
            "PCI device {address} is bound to driver {driver} and not to "
            "vfio-pci; hard-reboot instance {instance}"
        ),
        "guest_device_pulled": (
            "the guest has lost PCI device {address} while it runs, as when "
            "its VF was destroyed; check that 'sriov-rt vf list' has the VF, "
            "and hard-reboot instance {instance}"
        ),
        "guest_irq_on_pcpu": (
            "interrupts of PCI device {address} fire on CPUs {cpus} of "
            "realtime vCPUs; write a housekeeping CPU to "
            "/proc/irq/N/smp_affinity_list, and keep irqbalance off"
        ),
        "port_quarantined": (
            "port {port} is quarantined ({why}); see 'sriov-rt vif show "
            "{port}', and try again with 'sriov-rt vif unplug {port}'"
        ),
        "port_lost": (
            "port {port} has lost its interface {name} with the VF or NIC "
            "that it was on; 'systemctl start sriov-rt-restore' plugs it "
            "again, and 'sriov-rt vif restore' says why it has not been"
        ),
        "port_lost_by_guest": (
            "port {port} has lost its interface {name} with the VF or NIC "
            "that it was on, and its guest takes no other; hard-reboot "
            "instance {instance}"
        ),
        "port_vf_changed": (
            "VF {address} of port {port} was changed behind it ({why}); if "
            "nobody means that, run '{command}', or unplug the port and plug "
            "it again"
        ),
        "vf_mac_changed": (
            "interface {name} of VF {address} has MAC {mac}, and [nic] "
            "vf_macs gives it {configured}; if nobody means that, run "
            "'sriov-rt vf provision' while the VF is idle, or 'ip link set "
            "{name} address {configured}', else change [nic] vf_macs"
        ),
        "vfs_unknown": (
            "it is unknown whether VFs were changed ({why}); run 'sriov-rt "
            "vf list' as root, and correct what it names"
        ),
        "vf_quarantined": (
            "VF {address} is quarantined for {holder} ({why}); see 'sriov-rt "
            "vf show {address}', and once nothing uses the VF, end the "
            "quarantine with 'sriov-rt vf reset {address}'"
        ),
        "guest_onload_idle": (
            "Onload is injected and cannot work ({why}); run 'onload_tool "
            "reload', and hard-reboot instance {instance}"
        ),
        "pod_cpus_dedicated": (
            "container {container} of pod {pod} has static CPUs {cpus}, "
            "which are Nova's for guests; add them to reservedSystemCPUs of "
            "the kubelet, and delete the pod"
        ),
        "pod_cpus_not_isolated": (
            "container {container} of pod {pod} has static CPUs {cpus}, "
            "which are not isolated; add them to reservedSystemCPUs of the "
            "kubelet, and delete the pod"
        ),
        "pods_on_pcpus": (
            "pods without static CPUs may run on CPUs {cpus} of realtime "
            "guests; add them to reservedSystemCPUs of the kubelet, and set "
            "its CPU manager's option strict-cpu-reservation"
        ),
        "pod_cpus_unknown": (
            "static CPUs of pods are unknown ({why}); check that "
            "sriov-rt-agent can read the file, or correct [agent] "
            "kubelet_directory"
        ),
        "device_unnamed": (
            "resource provider {provider} has trait HW_PCI_ONE_TIME_USE, and "
            "is not named {node}_ADDRESS beneath that of the node; take the "
            "trait off it, or set [agent] node to the name that 'openstack "
            "hypervisor list' shows"
        ),
        "device_untracked": (
            "there is no resource provider {node}_{address} with trait "
            "HW_PCI_ONE_TIME_USE; set one_time_use of the device in [pci] "
            "device_spec of nova.conf, with report_in_placement, and restart "
            "nova-compute"
        ),
        "device_inventory_odd": (
            "the inventory of PCI device {address} is not one of Nova's "
            "({inventory}); compare 'openstack resource provider inventory "
            "list {provider}' with [pci] device_spec in nova.conf"
        ),
        "device_provider_changed": (
            "the resource provider of PCI device {address} changed while the "
            "device was cleaned; wait for the next run, which cleans it again"
        ),
        "device_placement_failed": (
            "Placement does not answer for PCI device {address} ({why}); "
            "check that it runs, and wait for the next run, which asks again"
        ),
        "device_missing": (
            "there is no PCI device {address}; put it back, or take it out of "
            "[pci] device_spec in nova.conf and restart nova-compute"
        ),
        "device_unreadable": (
            "PCI device {address} cannot be read ({why}); run 'sriov-rt "
            "device clean' as root on the host itself"
        ),
        "device_lost": (
            "PCI device {address} does not answer, or is another one by now "
            "(its id is {found}, and {wanted} was enumerated); see dmesg, and "
            "power-cycle the host"
        ),
        "device_is_vf": (
            "PCI device {address} is a VF, which Nova never reserves; take "
            "the trait HW_PCI_ONE_TIME_USE off its resource provider"
        ),
        "device_has_vfs": (
            "PCI device {address} has {vfs} VFs, which a reset would take "
            "away; write 0 to its sriov_numvfs when nobody uses them, and "
            "take it out of [nic] vfs"
        ),
        "device_of_host": (
            "PCI device {address} has driver {driver}, and the host may use "
            "it; keep it on vfio-pci with 'driverctl set-override "
            '{address} vfio-pci\' and "managed": "no" in [pci] device_spec'
        ),
        "device_held": (
            "PCI device {address} or another of its IOMMU group is held by "
            "{holder}; stop that guest or process"
        ),
        "device_use_unknown": (
            "it is not known whether a process holds PCI device {address} "
            "({why}); run 'sriov-rt device clean' as root on the host itself, "
            "not in a container"
        ),
        "device_without_reset": (
            "the kernel cannot reset PCI device {address} as a whole "
            "(reset_method is '{methods}'); write a method such as flr or bus "
            "to that file if the device has it, or clean it by hand and "
            "set its reserved to 0 with 'openstack resource provider "
            "inventory set'"
        ),
        "device_not_reset": (
            "PCI device {address} was not reset ({why}); see dmesg, and "
            "power-cycle the host if it stays so"
        ),
        "device_not_clean": (
            "PCI device {address} is not clean after its reset ({why}); see "
            "dmesg, and power-cycle the host if it stays so"
        ),
        "devices_unknown": (
            "it is not known which one-time-use devices stay reserved "
            "({why}); run 'sriov-rt device clean', which writes that again"
        ),
        "guest_without_onload": (
            "Onload was requested and is not injected ({why}); hard-reboot "
            "instance {instance}"
        ),
    }
)


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first few texts as one clause, and how many more there are.

    :param most: how many texts to include; at least one.
    :param separator: text between them; one with a semicolon also precedes
        the number of the others.
    """
    named, more = separator.join(texts[:most]), len(texts) - most
    if more <= 0:
        return named
    return f"{named}{separator.rstrip(', ')} and {more} more"


def reason(code: str, **fields: Any) -> Reason:
    """Return the Reason of a code, its sentence filled in.

    :param code: a key of :data:`SENTENCES`.
    :param fields: the sentence's fields, and any further ones.
    """
    return filled(code, SENTENCES[code], fields)


def filled(code: str, sentence: str, fields: Mapping[str, Any]) -> Reason:
    """Return the Reason of a code, from its sentence.

    :param sentence: a template: the problem, a semicolon, the remedy.
    :param fields: the template's fields, and any further ones.
    """
    message = sentence.format(**fields)
    # The template is split, since a field may contain a semicolon; a template
    # that is just one field has its remedy in the field.
    _, found, remedy = sentence.partition(REMEDY)
    remedy = (
        remedy.format(**fields) if found else message.rpartition(REMEDY)[2]
    )
    return Reason(code, message, fields, remedy if remedy != message else "")
