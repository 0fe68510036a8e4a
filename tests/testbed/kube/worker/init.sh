#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0

# /init: load what the disk needs, and go on there.

set -e
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
while read -r module; do
    $bb insmod "$module"
done < /modules/order
until [ -b /dev/vda ]; do
    $bb sleep 0.1
done
$bb mount -t ext4 -o noatime /dev/vda /new
for each in proc sys dev; do
    $bb mount --move "/$each" "/new/$each"
done
exec $bb switch_root /new /sbin/init
