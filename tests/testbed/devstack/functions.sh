#!/bin/bash
#
# SPDX-License-Identifier: Apache-2.0

# A small implementation of what DevStack offers to plugins.
#
# This is not DevStack. It was written from the documented behaviour of those
# functions that our plugin calls, so that its phases can be run on real
# configuration files without a DevStack: by the unit tests, and to configure
# the cloud of the cloud tests. It installs nothing and starts nothing.

# Errors and switches
# -------------------

# die LINE MESSAGE... - end with a message
function die {
    local line=$1
    shift
    echo "[ERROR] ${BASH_SOURCE[1]}:$line $*" >&2
    exit 1
}

# trueorfalse DEFAULT NAME - print True or False for the variable NAME
function trueorfalse {
    local value=${!2:-}
    case "${value,,}" in
        1|yes|true) echo True ;;
        0|no|false) echo False ;;
        *)          echo "$1" ;;
    esac
}

# define_plugin NAME - for tools that read settings alone
function define_plugin {
    return 0
}

# async_wait NAME... - there is nothing in the background here
function async_wait {
    return 0
}

# Services
# --------

# is_service_enabled NAME... - succeed if one of the services is enabled
function is_service_enabled {
    local name
    for name in "$@"; do
        if [[ ",$ENABLED_SERVICES," == *",$name,"* ]]; then
            return 0
        fi
    done
    return 1
}

# enable_service NAME... - enable services that are not disabled
function enable_service {
    local name
    for name in "$@"; do
        if [[ ",$DISABLED_SERVICES," == *",$name,"* ]]; then
            echo "[WARNING] $name stays disabled" >&2
        elif ! is_service_enabled "$name"; then
            ENABLED_SERVICES+=",$name"
        fi
    done
}

# run_process NAME COMMAND [GROUP] [USER] - write the service's unit
function run_process {
    local name=$1 command=$2 group=$3 user=${4:-$STACK_USER}
    local unit=$SYSTEMD_DIR/devstack@$name.service
    is_service_enabled "$name" || return 0
    [[ "$command" == /* ]] || die $LINENO "$name: no absolute path: $command"
    [[ "$command" != *sudo* ]] || die $LINENO "$name: sudo in: $command"
    mkdir -p "$SYSTEMD_DIR"
    iniset "$unit" Unit Description "Devstack devstack@$name.service"
    iniset "$unit" Service User "$user"
    iniset "$unit" Service ExecStart "$command"
    if [[ -n "$group" ]]; then
        iniset "$unit" Service Group "$group"
    fi
    touch "$unit.running"
}

# stop_process NAME - stop and disable the service; its unit stays
function stop_process {
    is_service_enabled "$1" || return 0
    rm -f "$SYSTEMD_DIR/devstack@$1.service.running"
}

# Packages
# --------

# setup_develop DIRECTORY - would install it editable
function setup_develop {
    [[ -e "$1/pyproject.toml" ]] || die $LINENO "$1 is not a project"
}

# is_ubuntu - succeed on Ubuntu and Debian, as this is
function is_ubuntu {
    true
}

# install_package NAME... - would install them, and says so
function install_package {
    echo "install_package $*"
}

# get_python_exec_prefix - print the directory of installed commands
function get_python_exec_prefix {
    echo "$DEVSTACK_VENV/bin"
}

# Configuration files
# -------------------

# _devstack_values FILE SECTION OPTION - print its values, one a line
function _devstack_values {
    section=$2 option=$3 awk '
        /^\[/ { inside = ($0 == "[" ENVIRON["section"] "]"); next }
        inside && (at = index($0, "=")) {
            name = substr($0, 1, at - 1)
            sub(/[ \t]+$/, "", name)
            if (name == ENVIRON["option"]) {
                value = substr($0, at + 1)
                sub(/^[ \t]+/, "", value)
                print value
            }
        }' "$1"
}

# _devstack_write FILE SECTION OPTION [VALUE...] - replace all its values
function _devstack_write {
    local file=$1 section=$2 option=$3
    shift 3
    local lines
    lines=$(for each in "$@"; do echo "$option = $each"; done)
    touch "$file"
    section=$section option=$option lines=$lines awk '
        function put() {
            if (!written && ENVIRON["lines"] != "")
                print ENVIRON["lines"]
            written = 1
        }
        /^\[/ {
            inside = ($0 == "[" ENVIRON["section"] "]")
            print
            if (inside)
                put()
            next
        }
        {
            name = $0
            sub(/[ \t]*=.*/, "", name)
            if (!(inside && index($0, "=") && name == ENVIRON["option"]))
                print
        }
        END {
            if (!written && ENVIRON["lines"] != "") {
                print "\n[" ENVIRON["section"] "]"
                put()
            }
        }' "$file" > "$file.new"
    # Not mv: the file keeps its owner and rights.
    cat "$file.new" > "$file"
    rm "$file.new"
}

# iniset [-sudo] FILE SECTION OPTION VALUE - set an option
function iniset {
    [[ "$1" != "-sudo" ]] || shift
    if [[ "$(_devstack_values "$1" "$2" "$3" 2>/dev/null)" != "$4" || -z "$4" ]]; then
        _devstack_write "$1" "$2" "$3" "$4"
    fi
}

# iniset_multiline FILE SECTION OPTION VALUE... - one line for each value
function iniset_multiline {
    _devstack_write "$@"
}

# iniadd FILE SECTION OPTION VALUE... - add lines to those that there are
function iniadd {
    local file=$1 section=$2 option=$3
    shift 3
    _devstack_write "$file" "$section" "$option" \
        $(_devstack_values "$file" "$section" "$option") "$@"
}

# iniget FILE SECTION OPTION - print an option's value
function iniget {
    _devstack_values "$@"
}

# iniget_multiline FILE SECTION OPTION - print its values on one line
function iniget_multiline {
    _devstack_values "$@" | paste -sd " "
}

# inidelete FILE SECTION OPTION - remove an option
function inidelete {
    _devstack_write "$1" "$2" "$3"
}

# inicomment FILE SECTION OPTION - make a comment of an option
function inicomment {
    sed -i "/^\[$2\]/,/^\[/ s/^$3[ \t]*=/#&/" "$1"
}

# Libraries of single projects
# ----------------------------

# iniset_rpc_backend PACKAGE FILE [SECTION] - the message queue
function iniset_rpc_backend {
    iniset "$2" "${3:-DEFAULT}" transport_url "$DEVSTACK_TRANSPORT_URL"
}

# configure_keystoneauth FILE USER SECTION - how a service signs in
function configure_keystoneauth {
    iniset "$1" "$3" auth_type password
    iniset "$1" "$3" auth_url "$KEYSTONE_SERVICE_URI"
    iniset "$1" "$3" username "$2"
    iniset "$1" "$3" password "$SERVICE_PASSWORD"
    iniset "$1" "$3" user_domain_name "$SERVICE_DOMAIN_NAME"
    iniset "$1" "$3" project_name "$SERVICE_PROJECT_NAME"
    iniset "$1" "$3" project_domain_name "$SERVICE_DOMAIN_NAME"
}

# get_or_create_user NAME PASSWORD DOMAIN - print the user's id
function get_or_create_user {
    openstack --os-cloud devstack-admin user create "$1" --password "$2" \
        --domain "$3" --or-show -f value -c id
}

# create_service_user NAME [ROLE] - a user with the role service
function create_service_user {
    local role
    get_or_create_user "$1" "$SERVICE_PASSWORD" "$SERVICE_DOMAIN_NAME"
    for role in service $2; do
        openstack --os-cloud devstack-admin role add "$role" --user "$1" \
            --project "$SERVICE_PROJECT_NAME"
    done
}

# plugin_agent_add_l2_agent_extension NAME - for the L2 agents
function plugin_agent_add_l2_agent_extension {
    if [[ ",$L2_AGENT_EXTENSIONS," != *",$1,"* ]]; then
        L2_AGENT_EXTENSIONS+=${L2_AGENT_EXTENSIONS:+,}$1
    fi
}

# write_own_options - what DevStack writes itself of what settings have changed
function write_own_options {
    if is_service_enabled n-sch n-api; then
        iniset "$NOVA_CONF" filter_scheduler enabled_filters "$NOVA_FILTERS"
    fi
    if is_service_enabled q-svc; then
        iniset "/$Q_PLUGIN_CONF_FILE" ml2 mechanism_drivers \
            "$Q_ML2_PLUGIN_MECHANISM_DRIVERS"
    fi
    if is_service_enabled q-sriov-agt; then
        iniset "/$SRIOV_AGENT_CONF" agent extensions "$L2_AGENT_EXTENSIONS"
    fi
}
