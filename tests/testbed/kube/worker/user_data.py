# SPDX-License-Identifier: Apache-2.0

"""A worker's user data, in the form of Cluster API's kubeadm provider.

tests/magnum has that provider make it of our nodegroups' values; with these
the same values come to a server without a management cluster.
"""

import json
from collections.abc import Mapping
from typing import Any

_CONFIG = "/run/kubeadm/kubeadm-join-config.yaml"
_JOIN = (
    f"kubeadm join --config {_CONFIG} && "
    "echo success > /run/cluster-api/bootstrap-success.complete"
)


def render(
    values: Mapping[str, Any], discovery: Mapping[str, Any], name: str
) -> str:
    """Return the user data of a node.

    :param values: of its nodegroup, as sriov_rt.magnum.nodegroup renders
        them for the chart.
    :param discovery: of the JoinConfiguration.
    :param name: of the node.
    """
    spec = values.get("kubeadmConfigSpec", {})
    registration = dict(
        spec.get("joinConfiguration", {}).get("nodeRegistration", {})
    )
    arguments = dict(registration.pop("kubeletExtraArgs", {}))
    labels = values.get("nodeLabels", {})
    if labels:
        arguments["node-labels"] = ",".join(
            f"{key}={value}" for key, value in sorted(labels.items())
        )
    join = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": discovery,
        # An emulated node takes its time.
        "timeouts": {
            "discovery": "10m",
            "kubeletHealthCheck": "10m",
            "kubernetesAPICall": "5m",
            "tlsBootstrap": "10m",
        },
        "nodeRegistration": {
            "name": name,
            "criSocket": "unix:///run/containerd/containerd.sock",
            **registration,
            "kubeletExtraArgs": [
                {"name": key, "value": value}
                for key, value in sorted(arguments.items())
            ],
        },
    }
    document = {
        "write_files": [
            *spec.get("files", ()),
            {
                "path": _CONFIG,
                "owner": "root:root",
                "permissions": "0640",
                "content": json.dumps(join),
            },
        ],
        "runcmd": [
            "mkdir -p /run/cluster-api",
            *spec.get("preKubeadmCommands", ()),
            _JOIN,
        ],
    }
    # JSON is YAML.
    return f"#cloud-config\n{json.dumps(document, indent=1)}\n"
