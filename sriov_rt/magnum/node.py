# SPDX-License-Identifier: Apache-2.0

"""Files and commands that a node runs before it joins its cluster."""

import pathlib
from collections.abc import Sequence
from typing import Any

from sriov_rt.magnum import node_networks

KERNEL_SCRIPT = "/usr/local/sbin/sriov-rt-kernel-parameters"
RUNTIME_SCRIPT = "/usr/local/sbin/sriov-rt-container-runtimes"
NETWORK_SCRIPT = "/usr/local/sbin/sriov-rt-pod-networks"
#: File of the pods' networks on a Magnum node.
NETWORK_CONFIG = "/etc/sriov-rt/pod-networks.json"

# cloud-init runs a node's commands only at its first boot. 'cloud-init clean'
# makes the next boot count as the first one, in which the parameters are set
# and kubeadm is run.
_KERNEL = """\
#!/bin/sh
# Managed by sriov-rt's Magnum driver: the kernel parameters of this node.
set -eu
requested='@REQUESTED@'
mark=/var/lib/sriov-rt/kernel-parameters
missing=
for word in $requested; do
    case " $(cat /proc/cmdline) " in
        *" $word "*) ;;
        *) missing="$missing $word" ;;
    esac
done
[ -n "$missing" ] || exit 0
if [ -e "$mark" ] && [ "$(cat "$mark")" = "$requested" ]; then
    echo "sriov-rt: the kernel booted without$missing" >&2
    exit 1
fi
if ! command -v update-grub >/dev/null; then
    echo "sriov-rt: no update-grub in this image to add$missing" >&2
    exit 1
fi
mkdir -p /etc/default/grub.d /var/lib/sriov-rt
echo "GRUB_CMDLINE_LINUX=\\"\\$GRUB_CMDLINE_LINUX $requested\\"" \\
    >/etc/default/grub.d/99-sriov-rt.cfg
update-grub
echo "$requested" >"$mark"
cloud-init clean
reboot
# Nothing else of the first boot runs.
exec sleep 3600
"""

# A drop-in would replace all settings of the plugin, because containerd 1
# merges imported files plugin by plugin. So the section is appended, as the
# chart does with its registries.
_RUNTIMES = """\
#!/bin/sh
# Managed by sriov-rt's Magnum driver: container runtimes of this node.
set -eu
if ! PATH=$PATH:/opt/kata/bin command -v containerd-shim-kata-v2 >/dev/null
then
    echo "sriov-rt: no containerd-shim-kata-v2 in this image" >&2
    exit 1
fi
file=/etc/containerd/config.toml
plugin=io.containerd.grpc.v1.cri
if grep -q '^version *= *3' "$file"; then
    plugin=io.containerd.cri.v1.runtime
fi
for name in @NAMES@; do
    table="[plugins.\\"$plugin\\".containerd.runtimes.$name]"
    if grep -qF "$table" "$file"; then
        continue
    fi
    cat >>"$file" <<END
$table
  runtime_type = "io.containerd.kata.v2"
  privileged_without_host_devices = true
END
done
systemctl restart containerd
"""


def kernel_parameters(words: Sequence[str]) -> dict[str, Any]:
    """Return the file and command that boot a node with kernel parameters.

    A node that cannot be booted with them does not join: its script ends
    before kubeadm is run, and its console says why.

    :param words: parameters such as ``nohz_full=2-3``, without blanks and
        quotes.
    """
    text = _KERNEL.replace("@REQUESTED@", " ".join(words))
    return _script(KERNEL_SCRIPT, text)


def container_runtimes(names: Sequence[str]) -> dict[str, Any]:
    """Return the file and command that add Kata's handlers to containerd.

    A node whose image has no Kata does not join, and its console says why.
    """
    text = _RUNTIMES.replace("@NAMES@", " ".join(names))
    return _script(RUNTIME_SCRIPT, text)


def pod_networks(config: str) -> dict[str, Any]:
    """Return the files and command that configure networks of pods.

    :param config: JSON that :mod:`node_networks` reads.
    """
    text = pathlib.Path(node_networks.__file__).read_text()
    found = _script(NETWORK_SCRIPT, f"#!/usr/bin/env python3\n{text}")
    found["files"].append(_file(NETWORK_CONFIG, config + "\n", "0644"))
    return found


def _script(path: str, text: str) -> dict[str, Any]:
    return {
        "files": [_file(path, text, "0755")],
        # cloud-init's script of all commands goes on after a failure.
        "preKubeadmCommands": [f"{path} || exit 1"],
    }


def _file(path: str, text: str, permissions: str) -> dict[str, str]:
    return {
        "path": path,
        "owner": "root:root",
        "permissions": permissions,
        "content": text,
    }
