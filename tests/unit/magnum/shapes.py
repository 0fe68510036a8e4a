# SPDX-License-Identifier: Apache-2.0

"""Flavors and nodegroups for the tests of the Magnum driver."""

from sriov_rt.magnum.nodegroup import Flavor
from sriov_rt.magnum.nodegroup import Nodegroup

REALTIME_VF = Flavor(
    "rt.large",
    4,
    8192,
    {
        "hw:cpu_policy": "dedicated",
        "hw:cpu_realtime": "yes",
        "hw:cpu_realtime_mask": "^0-1",
        "hw:mem_page_size": "1GB",
        "sriov_rt:realtime": "required",
        "sriov_rt:kernel": "preempt_rt",
        "sriov_rt:vif": "vf",
        "sriov_rt:nic": "solarflare",
        "trait:CUSTOM_RACK_7": "required",
    },
)
MACVLAN_ONLOAD = Flavor(
    "fast.medium",
    4,
    4096,
    {"sriov_rt:vif": "macvlan", "sriov_rt:onload": "required"},
)
ORDINARY = Flavor("m1.medium", 2, 4096, {"hw:cpu_policy": "shared"})

#: Networks, as Neutron has them.
FAST0 = "2b2e7f3c-93a7-4f5e-bf3c-9d6c1f1f0a11"
FAST1 = "2b2e7f3c-93a7-4f5e-bf3c-9d6c1f1f0a22"
NETWORKS = {
    "fast0": [FAST0],
    "fast1": [FAST1],
    "Fast 2": [FAST1],
    "twice": [FAST0, FAST1],
    FAST0: [FAST0],
}


def networks():
    """Return the networks, as the driver reads them."""
    return NETWORKS


def nodegroup(name="workers", **kwargs):
    """Return a nodegroup without labels, unless they are given."""
    kwargs.setdefault("labels", {})
    return Nodegroup(name=name, chart_name=name, **kwargs)


def with_extra_specs(flavor, **extra_specs):
    """Return a flavor with other extra specs; None removes one.

    :param extra_specs: with two underscores for a colon.
    """
    found = dict(flavor.extra_specs)
    for key, value in extra_specs.items():
        found[key.replace("__", ":")] = value
    return Flavor(
        flavor.name,
        flavor.vcpus,
        flavor.ram_mib,
        {key: value for key, value in found.items() if value is not None},
    )
