# SPDX-License-Identifier: Apache-2.0

# What the start scripts have in common; $1 is the file with the settings.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8
set -Eeu
. "$1"

# say WORDS: add a line to the progress file, with seconds since the boot.
say() {
    local uptime
    read -r uptime _ < /proc/uptime
    echo "$uptime $*" >> "$RTVM_PROGRESS"
}

trap 'say "failed: $BASH_COMMAND (${BASH_SOURCE[0]##*/} line $LINENO)"' ERR
