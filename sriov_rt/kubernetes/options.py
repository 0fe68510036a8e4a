# SPDX-License-Identifier: Apache-2.0

"""The options of the label source ``kubernetes``."""

import re
import urllib.parse

from oslo_config import cfg

from sriov_rt import config

GROUP = "kubernetes"

#: A Node's name: a DNS subdomain (RFC 1123), as the API server requires.
_NODE = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)


def _api_server(text: str) -> None:
    url = urllib.parse.urlsplit(text)
    if text and (url.scheme not in ("https", "http") or not url.hostname):
        raise ValueError("a URL such as https://10.0.0.1:6443 expected")


def _node_name(text: str) -> None:
    if text and not _NODE.fullmatch(text):
        raise ValueError("a name of a-z 0-9 . - expected")


KUBERNETES_OPTS = [
    cfg.Opt(
        "node_name",
        type=config.Checked(_node_name),
        help="""
The name of this host's Node, as ``kubectl get nodes`` shows it.

Where it is not set, ``[DEFAULT] host`` in lower case is used, which is the
kubelet's default as well. The agent reads this one Node and no other.
""",
    ),
    cfg.Opt(
        "kubeconfig",
        type=config.Checked(config.absolute_path_or_none),
        help="""
The kubeconfig file that says where the API server is and who the agent is.

The file, and the certificates that it names, are read again for each watch, so
that they can be replaced on disk. Where neither this nor ``api_server`` is
set, the agent runs in a pod and uses its service account.
""",
    ),
    cfg.StrOpt(
        "context",
        help="""
The context of ``kubeconfig`` to use.

Where it is not set, the file's ``current-context`` is used. It changes
nothing without ``kubeconfig``.
""",
    ),
    cfg.Opt(
        "api_server",
        type=config.Checked(_api_server),
        help="""
The API server's URL, such as ``https://10.0.0.1:6443``.

Use it with ``token_file`` and ``ca_file`` where there is no kubeconfig file.
With ``kubeconfig`` set it is not read.
""",
    ),
    cfg.Opt(
        "token_file",
        type=config.Checked(config.absolute_path_or_none),
        help="""
The file with the bearer token that goes with ``api_server``.

It is read again for each watch, so that tokens that expire can be replaced on
disk.
""",
    ),
    cfg.Opt(
        "ca_file",
        type=config.Checked(config.absolute_path_or_none),
        help="""
The file with the certificates that sign the one of ``api_server``.

Where it is not set, those that the ``certifi`` package brings are used. It is
read again for each watch.
""",
    ),
    cfg.FloatOpt(
        "connect_timeout",
        default=5.0,
        min=0.1,
        max=300.0,
        help="""
Seconds within which a connection to the API server has to be established.

It applies to a proxy as well. A request that takes longer fails and is made
again after a delay.
""",
    ),
    cfg.FloatOpt(
        "read_timeout",
        default=15.0,
        min=0.5,
        max=300.0,
        help="""
Seconds that the API server may take to answer a request.

A watch may be silent for ``watch_timeout`` plus this time before its
connection counts as hanging.
""",
    ),
    cfg.IntOpt(
        "watch_timeout",
        default=120,
        min=1,
        max=3600,
        help="""
Seconds after which a watch ends, and the Node is listed and watched again.

It is how long a connection that hangs goes unnoticed, how long the agent goes
on to see its Node after its rights were withdrawn, and how long credentials
that were replaced on disk are not read. A shorter time costs the API server
two requests of each agent in that time; keep it well below ``[labels]
stale_after``.
""",
    ),
    cfg.FloatOpt(
        "max_backoff",
        default=30.0,
        min=1.0,
        max=600.0,
        help="""
The longest delay, in seconds, before a failed request is made again.

Delays start below one second, double with each failure and are random by
half, so that the agents do not come back together when an API server does.
""",
    ),
]


def check(conf: cfg.ConfigOpts, service: str) -> None:
    """Register and read every option, before any is needed.

    :raises OptionRejected: for the first option with a bad value.
    """
    conf.register_opts(KUBERNETES_OPTS, group=GROUP)
    config.check(conf, ((GROUP, KUBERNETES_OPTS),), service)
