# SPDX-License-Identifier: Apache-2.0

# udev with the shipped rule, and what systemd would do for the shipped unit:
# the test machine has no init system. PF, DEVICE and CPU are its PF, and
# where its mailbox is served; PYTHON has sriov-rt. In a mount namespace of its
# own, so that nothing of it stays.

set -e
. "$1/tests/testbed/rtvm/guest/vfs.sh"
work=/run/pf-reload
mkdir -p $work

# What the network configuration of a host does: the name, and up.
cat > $work/80-host.rules <<END
ACTION=="add", SUBSYSTEM=="net", KERNELS=="$DEVICE", DRIVERS=="igb", \
NAME="$PF", RUN+="/bin/bash $work/up"
END
cat > $work/up <<END
. $1/tests/testbed/rtvm/guest/vfs.sh
ip link set $PF up
pin_mailbox $PF $CPU
END

# 'systemctl --no-block start PATH': while its file is there the service runs,
# once at a time, again after RestartSec until its last command ends well.
cat > $work/systemctl <<END
#!/bin/bash
echo "\$(date +%s.%N) systemctl \$*" >> $work/log
exec setsid bash -c 'exec 9> $work/lock; flock 9
while [ -e /run/sriov-rt/restore ]; do
until bash $work/run >> $work/log 2>&1; do sleep $(
    sed -n 's/^RestartSec=//p' "$1/etc/systemd/sriov-rt-restore.service"
); done; done' > /dev/null 2>&1 < /dev/null &
END
sed -n 's/^ExecStart=//p' "$1/etc/systemd/sriov-rt-restore.service" |
    sed "s,/usr/bin/sriov-rt,$PROGRAM," | {
    echo 'status=0; rm -f /run/sriov-rt/restore'
    while read -r line; do
        echo "echo \"\$(date +%s.%N) $line\""
        case $line in
            -*) echo "${line#-} || true" ;;
            *) echo "$line || status=\$?" ;;
        esac
    done
    echo '[ "$status" = 3 ] || exit $status'
} > $work/run
chmod +x $work/systemctl

mount -t tmpfs none /usr/lib/udev/rules.d
cp $work/80-host.rules "$1/etc/udev/90-sriov-rt.rules" /usr/lib/udev/rules.d
mount --bind $work/systemctl /usr/bin/systemctl
exec /lib/systemd/systemd-udevd
