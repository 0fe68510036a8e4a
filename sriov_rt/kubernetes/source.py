# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The entry point of the label source ``kubernetes``."""

from sriov_rt.agent.backoff import Backoff
from sriov_rt.kubernetes import options
from sriov_rt.kubernetes.watcher import FIRST_DELAY_S
from sriov_rt.kubernetes.watcher import Watcher
from sriov_rt.labels.source import Wiring
from sriov_rt.labels.sources import LabelSourceMissing


def make(wiring: Wiring) -> Watcher:
    """Return the source that a configuration describes, not started.

    :raises LabelSourceMissing: without the package ``kubernetes``.
    """
    conf = wiring.conf
    conf.register_opts(options.KUBERNETES_OPTS, group=options.GROUP)
    group = conf.kubernetes
    try:
        from sriov_rt.kubernetes import connection
        from sriov_rt.kubernetes import http
    except ImportError as error:
        raise LabelSourceMissing(
            "kubernetes", f"{error}; run 'pip install sriov-rt[kubernetes]'"
        ) from error
    name = group.node_name or conf.host.lower()
    settings = connection.Settings(
        node_name=name,
        kubeconfig=group.kubeconfig,
        context=group.context,
        api_server=group.api_server,
        token_file=group.token_file,
        ca_file=group.ca_file,
        connect_timeout_s=group.connect_timeout,
        read_timeout_s=group.read_timeout,
        watch_timeout_s=group.watch_timeout,
    )
    return Watcher(
        http.NodeApi(settings),
        name,
        Backoff(FIRST_DELAY_S, group.max_backoff),
        wiring.changed,
        wiring.crashed,
    )
