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
