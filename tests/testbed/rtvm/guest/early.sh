#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0

# /init: mount the outer machine's root file system under a writable layer
# in memory, and go on there.

set -e
export PATH=/bin
bb=/bin/busybox

$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
while read -r module; do
    $bb insmod "$module"
done < /modules/order

for word in $($bb cat /proc/cmdline); do
    case $word in
        rtvm.settings=*) settings=${word#*=} ;;
        rtvm.state=*) state=${word#*=} ;;
        rtvm.guest=*) guest=${word#*=} ;;
        rtvm.modules=*) modules=${word#*=} ;;
    esac
done

$bb mount -t virtiofs -o ro root /lower
$bb mount -t tmpfs -o mode=755,size=60% upper /upper
$bb mkdir /upper/files /upper/work
$bb mount -t overlay \
    -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work root /new

# The outer machine's sockets and pid files aren't ours.
$bb mount -t tmpfs -o mode=755 run /new/run

# The state directory has the same path inside and out, and is one file
# system for both.
$bb mkdir -p "/new$state"
$bb mount -t virtiofs state "/new$state"

release=$($bb uname -r)
$bb mkdir -p "/new/lib/modules/$release"
$bb mount -o bind "/new$modules" "/new/lib/modules/$release"

$bb cat > /new/etc/inittab <<END
::sysinit:/bin/bash $guest/system.sh $settings
::respawn:/bin/bash $guest/agent.sh $settings
::once:/bin/bash $guest/services.sh $settings
END

for directory in proc sys dev; do
    $bb mount -o move "/$directory" "/new/$directory"
done
exec $bb switch_root /new /bin/busybox init
