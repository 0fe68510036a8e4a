# SPDX-License-Identifier: Apache-2.0

"""Labels of a host from Node Feature Discovery, and back into it.

The kernel's labels are in :mod:`sriov_rt.host.labels`; here they are merged
with what label sources say (stevedore ``sriov_rt.label_sources``), of which
each may be down for a while.
"""
