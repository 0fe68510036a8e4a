# SPDX-License-Identifier: Apache-2.0

"""sos plug-in: what sriov-rt reads of a host, its state and its logs."""

from sos.report.plugins import DebianPlugin
from sos.report.plugins import Plugin
from sos.report.plugins import RedHatPlugin
from sos.report.plugins import UbuntuPlugin

_CPU = "/sys/devices/system/cpu"

#: What the facts of a host are read from, as far as sos leaves it out.
_FACTS = (
    "/etc/os-release",
    "/etc/tuned/active_profile",
    "/proc/1/net/unix",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/driver/onload/version",
    "/proc/irq/*/effective_affinity_list",
    "/proc/irq/*/smp_affinity_list",
    "/proc/irq/default_smp_affinity",
    "/proc/swaps",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/sched_rt_period_us",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/soft_watchdog",
    "/proc/sys/kernel/timer_migration",
    "/proc/sys/kernel/version",
    "/proc/sys/kernel/watchdog",
    "/proc/sys/kernel/watchdog_cpumask",
    f"{_CPU}/cpu*/cpuidle/state*/disable",
    f"{_CPU}/cpu*/cpuidle/state*/latency",
    f"{_CPU}/cpu*/cpuidle/state*/name",
    f"{_CPU}/cpu*/online",
    f"{_CPU}/cpu*/power/pm_qos_resume_latency_us",
    f"{_CPU}/cpu*/topology/core_cpus_list",
    f"{_CPU}/cpu*/topology/thread_siblings_list",
    f"{_CPU}/cpufreq/policy*/affected_cpus",
    f"{_CPU}/cpufreq/policy*/scaling_governor",
    f"{_CPU}/isolated",
    f"{_CPU}/modalias",
    f"{_CPU}/nohz_full",
    f"{_CPU}/offline",
    f"{_CPU}/online",
    f"{_CPU}/possible",
    f"{_CPU}/present",
    f"{_CPU}/smt/active",
    f"{_CPU}/smt/control",
    "/sys/class/dmi/id/bios_*",
    "/sys/class/dmi/id/product_name",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/node/node*/cpulist",
    "/sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/fs/cgroup/cpuset.cpus.isolated",
    "/sys/fs/cgroup/machine*/cpuset.cpus*",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/realtime",
    "/sys/kernel/sched_ext/state",
    "/sys/module/kvm*/parameters/*",
)

#: Configuration, whose passwords and tokens are taken out.
_CONFIG = (
    "/etc/sriov_rt/guests.conf",
    "/etc/sriov_rt/sriov-rt.conf",
)

#: Records and state; results of measurements may be large.
_STATE = (
    "/run/sriov-rt/",
    "/var/lib/sriov-rt/",
    "/var/lib/sriov-rt-verify/hold.json",
    "/var/lib/sriov-rt-verify/latency-certificate.json",
)

_DIRECTORIES = (
    "/run/sriov-rt",
    "/var/lib/sriov-rt",
    "/var/lib/sriov-rt-verify",
)

_UNITS = (
    "sriov-rt-agent",
    "sriov-rt-devices",
    "sriov-rt-neutron-agent",
    "sriov-rt-restore",
    "sriov-rt-verify-watch",
    "sriov-rt-vfs",
)


class SriovRt(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin):
    """What tells whether a host serves realtime instances."""

    short_desc = "sriov-rt: realtime and low-latency networking"
    plugin_name = "sriov_rt"
    profiles = ("openstack", "openstack_compute", "virt")
    packages = ("python3-sriov-rt",)
    files = ("/etc/sriov_rt",)

    def setup(self):
        """Name what is collected."""
        self.add_copy_spec([*_FACTS, *_CONFIG, *_STATE])
        self.add_cmd_output(
            [
                # That it has run tells that what it left out is not there.
                f"ls -ln {' '.join(_DIRECTORIES)}",
                "sriov-rt host show --json",
                "sriov-rt vif list --json",
                "sriov-rt vf map --json",
                "sriov-rt-status upgrade check",
            ]
        )
        for unit in _UNITS:
            self.add_journal(units=unit)

    def postproc(self):
        """Take passwords and tokens out."""
        for path in _CONFIG:
            self.do_file_sub(path, r"(://[^:/@\s]*:)[^@\s]*@", r"\1********@")
            self.do_file_sub(
                path,
                r"(?i)((password|secret|token|key)\w*\s*=\s*).*",
                r"\1********",
            )
