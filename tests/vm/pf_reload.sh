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

# While the file of sriov-rt-restore.path is there the service runs, once at a
# time, again after RestartSec until its last command ends well.
cat > $work/path <<END
while sleep 0.2; do
    [ -e /run/sriov-rt/restore ] || continue
    echo "\$(date +%s.%N) /run/sriov-rt/restore is there" >> $work/log
    until bash $work/run >> $work/log 2>&1; do sleep $(
        sed -n 's/^RestartSec=//p' "$1/etc/systemd/sriov-rt-restore.service"
    ); done
done
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
    echo '[ "$status" = 0 -o "$status" = 3 ] || exit $status'
    sed -n 's/^ExecStartPost=//p' "$1/etc/systemd/sriov-rt-restore.service"
} > $work/run
mount -t tmpfs none /usr/lib/udev/rules.d
cp $work/80-host.rules "$1/etc/udev/90-sriov-rt.rules" /usr/lib/udev/rules.d
bash $work/path < /dev/null &
exec /lib/systemd/systemd-udevd
