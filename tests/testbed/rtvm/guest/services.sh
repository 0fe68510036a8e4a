#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Network cards with their VFs, then libvirt, which lists them at its start.

. "${0%/*}/common.sh"
. "${0%/*}/vfs.sh"

management() {
    modprobe virtio_net
    wait_until 30 test -e /sys/class/net/eth0
    ip address add "$RTVM_ADDRESS" dev eth0
    ip link set eth0 up
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
        make_vfs "enp${bus}s0" "0000:0$bus:00.0" "$RTVM_VFS" 0
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
    if [ -n "$RTVM_ADDRESS" ]; then
        # For live migration; nobody else reaches the management network.
        cat >> /etc/libvirt/libvirtd.conf <<END
listen_tls = 0
listen_tcp = 1
listen_addr = "${RTVM_ADDRESS%/*}"
auth_tcp = "none"
END
    fi
    virtlogd --daemon --pid-file /run/libvirt/virtlogd.pid
    libvirtd --daemon ${RTVM_ADDRESS:+--listen} \
        --pid-file /run/libvirt/libvirtd.pid
    wait_until 120 virsh --quiet --connect qemu:///system list > /dev/null
}

echo "$RTVM_IDENTITY" > /var/lib/nova/compute_id
echo "${RTVM_IDENTITY//-/}" > /etc/machine-id
housekeeping=$(taskset --pid --cpu-list $$)
housekeeping=${housekeeping##*: }
# VFs are bound from another CPU than that of the mailboxes (see vfs.sh).
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
