# SPDX-License-Identifier: Apache-2.0

"""The options of label sources, ``[labels]``."""

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.labels import store

GROUP = "labels"

#: Directory that NFD's local source reads (featureFilesDir in source/local).
FEATURES_DIR = "/etc/kubernetes/node-feature-discovery/features.d"

#: The name of the file that the agent writes there.
FEATURE_FILE = "sriov-rt"

LABEL_OPTS = [
    cfg.ListOpt(
        "sources",
        default=[],
        help="""
The label sources to follow, those that count first first.

``kubernetes`` are the labels and extended resources of this host's Node,
``nfd_local`` the feature files of Node Feature Discovery on this host; other
packages may install more (``sriov_rt.label_sources``). The labels that follow
from the kernel come before all of them and need not be named. Leave it empty
on hosts that are no Kubernetes nodes.
""",
    ),
    cfg.FloatOpt(
        "stale_after",
        default=300.0,
        min=1.0,
        max=86400.0,
        help="""
Seconds for which the last known labels of a source that is down still count.

After it, a flavor whose selector hangs on one of its labels, or on a label
that is missing and may be one of its, finds the host not fit with the Reason
``labels_stale``. Keep it longer than an upgrade of the API server takes, and
well above ``[kubernetes] watch_timeout``, which is how long a connection that
hangs may go unnoticed.
""",
    ),
    cfg.FloatOpt(
        "debounce",
        default=0.1,
        min=0.0,
        max=60.0,
        help="""
Seconds from a label's change to the observation that publishes it.

Changes that come within this time are published as one. Raise it if
something changes the labels of many Nodes many times a second; it is added to
the time after which schedulers see a change.
""",
    ),
    cfg.ListOpt(
        "ignore",
        default=["kubernetes.io/hostname"],
        help="""
Keys of labels to leave out, as shell patterns, with their prefix.

Leave out labels that no flavor selects hosts by and that differ on each host
(serial numbers, instance ids): they take memory in each nova-scheduler, and a
change of one is a change of the host's facts. Select single hosts by
aggregates instead.
""",
    ),
    cfg.ListOpt(
        "traits",
        default=[],
        help="""
Keys of the labels that become traits in Placement, as shell patterns.

``pci-1924.present`` with the value ``true`` becomes
``CUSTOM_NFD_PCI_1924_PRESENT``, which a flavor requires by
``trait:CUSTOM_NFD_PCI_1924_PRESENT=required`` with no filter in the
scheduler. A key without a slash is one of NFD's. The labels of a source that
is stale have no traits; see the operator's guide for the names.
""",
    ),
    cfg.Opt(
        "store",
        type=config.Checked(config.absolute_path_or_none),
        default=store.PATH,
        help="""
The file that keeps the last known labels through a restart of the agent.

Its directory has to be there and to be writable for the agent's user.
``sriov-rt host`` and nova-compute, which judges forced hosts by it, read it
at its default place. Empty to keep none: a source that is down while the
agent starts is then stale at once.
""",
    ),
    cfg.Opt(
        "features_dir",
        type=config.Checked(config.absolute_path),
        default=FEATURES_DIR,
        help="""
The directory of the feature files of NFD's local source.

``nfd_local`` reads it below ``[agent] root``, and ``feature_file`` writes
into it. It has to be what nfd-worker sees there: mount it into the worker's
pod from the host, as NFD's own deployment does.
""",
    ),
    cfg.BoolOpt(
        "feature_file",
        default=False,
        help="""
Whether to give NFD what only the agent knows, by a file in ``features_dir``.

The labels ``sriov-rt.ready``, ``sriov-rt.cpus.isolated``,
``sriov-rt.cpus.nohz_full``, ``sriov-rt.onload``, ``sriov-rt.certified`` and
``sriov-rt.latency-us`` then let Kubernetes workloads select on them. The
agent's user has to be allowed to write there.
""",
    ),
    cfg.FloatOpt(
        "feature_expiry",
        default=300.0,
        min=10.0,
        max=86400.0,
        help="""
Seconds after which NFD drops the agent's labels if the agent is gone.

The file is written again when half of it is over, so that an agent that runs
is never late; raise it if nfd-worker's ``sleepInterval`` is longer than that
half.
""",
    ),
]
