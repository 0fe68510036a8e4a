# SPDX-License-Identifier: Apache-2.0

# Making a PF's VFs, for the start scripts and for tests.

device=/sys/bus/pci/devices

# wait_until SECONDS COMMAND...: run it again until it succeeds.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        if ((SECONDS >= deadline)); then
            return 1
        fi
        sleep 0.2
    done
}

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

# pin_mailbox PF CPU: on a PREEMPT_RT kernel a VF's driver waits for the PF's
# answer with bottom halves off, and the PF's interrupt thread can't answer
# while that is so on its own CPU. So it has one that VFs are not touched from.
pin_mailbox() {
    local irq
    for irq in /proc/irq/*/"$1"; do
        echo "$2" > "${irq%/*}/smp_affinity_list"
    done
}

# has_answer PF NUMBER BDF: whether the PF shows the MAC that the driver of its
# VF has made up.
has_answer() {
    ip link show "$1" | grep -q "vf $2 .*$(cat "$device/$3"/net/*/address)"
}

# bind_vf PF NUMBER BDF: bind a VF's driver, again if it got no answer.
bind_vf() {
    local try
    for try in 1 2 3 4 5; do
        ((try == 1)) || echo "$3" > "$device/$3/driver/unbind"
        echo "$3" > /sys/bus/pci/drivers_probe
        wait_until 30 has_name "$3"
        if has_answer "$@"; then
            break
        fi
    done
    rename "$3" "${1}v$2"
}

# make_vfs PF BDF COUNT CPU: make them anew, the mailbox on a CPU. A VF's driver
# that is bound while the PF still resets gets no answer either, so it is bound
# when the PF is back.
make_vfs() {
    local pf=$1 bdf=$2 count=$3 cpu=$4 vf number
    echo 0 > "$device/$bdf/sriov_drivers_autoprobe"
    echo 0 > "$device/$bdf/sriov_numvfs"
    echo "$count" > "$device/$bdf/sriov_numvfs"
    echo 1 > "$device/$bdf/sriov_drivers_autoprobe"
    wait_until 30 has_carrier "$pf"
    pin_mailbox "$pf" "$cpu"
    for ((number = 0; number < count; number++)); do
        vf=$(readlink -f "$device/$bdf/virtfn$number")
        bind_vf "$pf" "$number" "${vf##*/}"
    done
}
