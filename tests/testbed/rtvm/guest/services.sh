#!/bin/bash
# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

# Network cards with their VFs, then libvirt, which lists them at its start.

. "${0%/*}/common.sh"

device=/sys/bus/pci/devices

# has_name BDF: whether a PCI function has a network interface by now.
has_name() { [ -e "$device/$1"/net/* ]; }

has_carrier() {
    [ "$(cat "/sys/class/net/$1/carrier" 2> /dev/null)" = 1 ]
}

# rename BDF NAME: by what systemd's udev calls it; there is no udev here.
rename() {
    local now
    wait_until 30 has_name "$1"
    now=$(echo "$device/$1"/net/*)
    ip link set "${now##*/}" name "$2"
}

management() {
    modprobe virtio_net
    wait_until 30 test -e /sys/class/net/eth0
    ip address add "$RTVM_ADDRESS" dev eth0
    ip link set eth0 up
}

# pin_mailbox PF: on a PREEMPT_RT kernel a VF's driver waits for the PF's
# answer with bottom halves off, and the PF's interrupt thread can't answer
# while that is so on its own CPU. So the thread is kept on CPU 0, and the
# VFs' drivers are bound from CPU 1.
pin_mailbox() {
    local irq
    for irq in /proc/irq/*/"$1"; do
        echo 0 > "${irq%/*}/smp_affinity_list"
    done
}

# make_vfs PF BDF: a VF's driver that is bound while the PF still resets
# gets no answer either, so it is bound when the PF is back.
make_vfs() {
    local pf=$1 bdf=$2 vf number
    echo 0 > "$device/$bdf/sriov_drivers_autoprobe"
    echo "$RTVM_VFS" > "$device/$bdf/sriov_numvfs"
    echo 1 > "$device/$bdf/sriov_drivers_autoprobe"
    wait_until 30 has_carrier "$pf"
    pin_mailbox "$pf"
    for ((number = 0; number < RTVM_VFS; number++)); do
        vf=$(readlink -f "$device/$bdf/virtfn$number")
        vf=${vf##*/}
        echo "$vf" > /sys/bus/pci/drivers_probe
        rename "$vf" "${pf}v$number"
    done
}

network() {
    local bus
    modprobe -a igb igbvf vfio-pci macvlan macvtap ipvlan 8021q tun
    for bus in 1 2; do
        rename "0000:0$bus:00.0" "enp${bus}s0"
        ip link set "enp${bus}s0" up
    done
    for bus in 1 2; do
        wait_until 30 has_carrier "enp${bus}s0"
    done
    ((RTVM_VFS > 0)) || return 0
    for bus in 1 2; do
        make_vfs "enp${bus}s0" "0000:0$bus:00.0"
    done
}

libvirt() {
    mkdir -p /run/libvirt /var/lib/libvirt/qemu
    rm -rf /etc/libvirt/qemu
    mkdir -p /etc/libvirt/qemu/networks
    cat > /etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
namespaces = []
END
    cat > /etc/libvirt/libvirtd.conf <<END
host_uuid = "$RTVM_IDENTITY"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
END
    virtlogd --daemon --pid-file /run/libvirt/virtlogd.pid
    libvirtd --daemon --pid-file /run/libvirt/libvirtd.pid
    wait_until 120 virsh --quiet --connect qemu:///system list > /dev/null
}

echo "$RTVM_IDENTITY" > /var/lib/nova/compute_id
housekeeping=$(taskset --pid --cpu-list $$)
housekeeping=${housekeeping##*: }
taskset --pid --cpu-list 1 $$ > /dev/null
if [ -n "$RTVM_ADDRESS" ]; then
    management
    say 'management network'
fi
network
say 'network cards and VFs'
taskset --pid --cpu-list "$housekeeping" $$ > /dev/null
if [ "$RTVM_LIBVIRT" = yes ]; then
    libvirt
    say 'libvirtd'
fi
say ready
