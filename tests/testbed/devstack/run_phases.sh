#!/bin/bash
#
# SPDX-License-Identifier: Apache-2.0

# run_phases.sh LOCALRC PHASE... - run phases of our plugin
#
# LOCALRC sets what a DevStack and its local.conf have set; a PHASE is the
# arguments of plugin.sh in one word, such as "stack install". See
# functions.sh: this is not DevStack.

set -o errexit

_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
_plugin=$(cd "$_here/../../../devstack" && pwd)

source "$_here/functions.sh"
source "$1"
shift
source "$_plugin/settings"

for _phase in "$@"; do
    if [[ "$_phase" == "stack post-config" ]]; then
        write_own_options
    fi
    # One word a phase, as stack.sh, unstack.sh and clean.sh give them.
    source "$_plugin/plugin.sh" $_phase
done
