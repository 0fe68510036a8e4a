# SPDX-License-Identifier: Apache-2.0

"""``openstack realtime``: our commands as openstackclient runs them."""

from sriov_rt.cmd import agents
from sriov_rt.cmd import explain
from sriov_rt.cmd.display import adapted

Explain = adapted(explain.Explain)
HostList = adapted(agents.List)
HostShow = adapted(agents.Show)
