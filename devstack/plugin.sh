#!/bin/bash
#
# plugin.sh - DevStack's entry into sriov-rt
#
# It is sourced once for each phase, with the phase as its arguments. What a
# phase does is in lib/sriov_rt.

source "$(dirname "${BASH_SOURCE[0]}")/lib/sriov_rt"

case "$1/$2" in
    stack/pre-install) sriov_rt_check ;;
    stack/install)     sriov_rt_install ;;
    stack/post-config) sriov_rt_configure ;;
    stack/extra)       sriov_rt_start ;;
    stack/test-config) sriov_rt_configure_tempest ;;
    unstack/*)         sriov_rt_stop ;;
    clean/*)           sriov_rt_clean ;;
esac
