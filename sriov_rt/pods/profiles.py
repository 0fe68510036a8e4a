# SPDX-License-Identifier: Apache-2.0

"""The operator's Onload profiles as a ConfigMap for admission. Pure."""

from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions

#: Name and namespace of the ConfigMap that the policy sriov-rt-onload reads.
NAMESPACE = "sriov-rt"
NAME = "sriov-rt-onload-profiles"

#: Annotation of the ConfigMap with the extended resource of Onload's devices.
RESOURCE = "sriov-rt.openstack.org/onload-resource"


class NotInLines(exceptions.SriovRtError):
    """A variable of a profile has more than one line."""

    def __init__(self, profile: str, variable: str) -> None:
        super().__init__(
            f"profile {profile!r} sets {variable} to more than one line; "
            "correct the profile's file"
        )


def config_map(
    environments: Mapping[str, Mapping[str, str]], resource: str
) -> dict[str, Any]:
    """Return the ConfigMap: a key per profile, a NAME=VALUE line per variable.

    :param environments: variables of each profile, including LD_PRELOAD.
    :param resource: the extended resource of Onload's devices.
    :raises NotInLines: if a value has more than one line.
    """
    data = {}
    for profile, environment in sorted(environments.items()):
        for name, value in environment.items():
            if len(value.splitlines()) > 1 or value.endswith("\n"):
                raise NotInLines(profile, name)
        data[profile] = "".join(
            f"{name}={value}\n" for name, value in environment.items()
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "annotations": {RESOURCE: resource},
        },
        "data": data,
    }
