# SPDX-License-Identifier: Apache-2.0

"""The options of magnum-conductor, in ``[sriov_rt_magnum]``."""

from oslo_config import cfg

from sriov_rt.magnum import addons

GROUP = "sriov_rt_magnum"

REFUSE, WARN = "refuse", "warn"

TRAITS, FACTS = "traits", "facts"

CUSTOM, RESOURCE_SET = "custom", "cluster_resource_set"

MAGNUM_OPTS = [
    cfg.StrOpt(
        "unfit_flavor",
        default=REFUSE,
        choices=[
            (REFUSE, "Refuse the nodegroup, or its growth."),
            (WARN, "Build it, with a warning in its status_reason."),
        ],
        help="""
What happens to a nodegroup whose servers no host could take now.

Hosts are judged, see ``host_check``, when a nodegroup is created, updated or
grows. Set it to ``warn`` where realtime hosts are added after the nodegroups
that need them. Servers of such a nodegroup stay in ERROR until there is a
host; extra specs that no host can ever satisfy are refused all the same.
""",
    ),
    cfg.StrOpt(
        "host_check",
        default=TRAITS,
        choices=[
            (TRAITS, "The traits of hosts in Placement."),
            (FACTS, "The traits, and the facts that agents report."),
        ],
        help="""
How to decide whether a host could take a nodegroup's servers.

Traits need nothing but Placement. With ``facts`` magnum-conductor also listens
to the agents and judges every host as ``sriov-rt explain`` does, so that a
refusal names hosts and reasons; for that ``[sriov_rt] transport_url`` in
magnum.conf names the message queue of the agents. The first operation after a
start then waits for their reports, ``[sriov_rt] warmup_timeout`` at most.
""",
    ),
    cfg.BoolOpt(
        "taint_realtime_nodes",
        default=True,
        help="""
Whether nodes of realtime nodegroups repel ordinary pods.

Each node gets the taint ``sriov-rt.openstack.org/realtime=true:NoSchedule``.
Set it to false where admission policies keep ordinary pods away. A cluster's
default nodegroup has no taint in either case, since the cluster's own pods
have to run somewhere.
""",
    ),
    cfg.BoolOpt(
        "onload_admission",
        default=False,
        help="""
Whether clusters get the policy that patches pods for Onload.

The add-on ``onload-pods`` needs an API server that serves
MutatingAdmissionPolicy, as Kubernetes 1.36 does by itself and 1.34 with a
feature gate. Where it is set, clusters with Onload nodegroups get the add-on,
and their nodes the label ``sriov-rt.openstack.org/onload-admission=true``.
""",
    ),
    cfg.ListOpt(
        "addons",
        help="""
Names of the add-ons that clusters get when a nodegroup needs them.

All by default; ``addons_directory`` has them. Name fewer where a cluster gets
one in another way, such as Multus from a chart of the operator's. An empty
value means none.
""",
    ),
    cfg.StrOpt(
        "addon_carrier",
        default=CUSTOM,
        choices=[
            (
                CUSTOM,
                "The chart's addons.custom, which capi-addon-provider "
                "applies.",
            ),
            (
                RESOURCE_SET,
                "Secrets and a ClusterResourceSet, which Cluster API applies.",
            ),
        ],
        help="""
How add-ons reach a cluster.

The default needs capi-addon-provider in the management cluster, as the chart
of magnum-capi-helm does by itself. Set it to ``cluster_resource_set`` where
the chart is used without that provider. A ClusterResourceSet adds and changes
objects, and never removes one that an add-on no longer has.
""",
    ),
    cfg.DictOpt(
        "addon_images",
        default={},
        help="""
Container images of add-ons in place of the published ones.

Names and published images are in ``index.yaml`` of ``addons_directory``. Set
it where nodes pull from a registry of their own, such as
``multus-cni:registry.example.com/multus-cni:v4.2.3``. Each node that runs the
add-on pulls the image again.
""",
    ),
    cfg.StrOpt(
        "addons_directory",
        default=addons.default_directory(),
        sample_default="/usr/share/sriov-rt/kubernetes/addons",
        help="""
The directory of the add-ons' manifests and of their ``index.yaml``.

The package brings it. Set it to a copy to change a manifest, and raise the
version and correct the checksum in the index with it. Nothing is applied from
a directory whose files differ from the index.
""",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register every option that the driver reads."""
    conf.register_opts(MAGNUM_OPTS, group=GROUP)
