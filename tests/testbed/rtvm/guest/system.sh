#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# What has to be there before any program: file systems, a name, settings.

. "${0%/*}/common.sh"

mkdir -p /dev/pts /dev/shm /dev/mqueue /dev/hugepages
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t mqueue mqueue /dev/mqueue
mount -t hugetlbfs hugetlbfs /dev/hugepages
ln -sfn /proc/self/fd /dev/fd

# The outer machine's guests, databases and state aren't ours. A file below an
# overlay that somebody replaces there is a stale handle in it: a cloud of the
# outer machine writes its certificate and holds at the same time.
mkdir -p /run/lock
for directory in /var/lib/libvirt /var/log/libvirt /var/cache/libvirt \
    /var/lib/nova /var/log/nova /var/lib/sriov-rt /var/lib/sriov-rt-tuning \
    /var/lib/sriov-rt-verify; do
    mkdir -p "$directory"
    mount -t tmpfs -o mode=755 "${directory##*/}" "$directory"
done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo '+cpuset +cpu +io +memory +pids' > /sys/fs/cgroup/cgroup.subtree_control

echo "$RTVM_NAME" > /proc/sys/kernel/hostname
echo "$RTVM_NAME" > /etc/hostname
printf '%s\n' '127.0.0.1 localhost' "$RTVM_HOSTS" > /etc/hosts
ip link set lo up

for setting in $RTVM_SYSCTLS; do
    name=${setting%%=*}
    echo "${setting#*=}" > "/proc/sys/${name//.//}"
done

modprobe virtio_console
say 'file systems and settings'
