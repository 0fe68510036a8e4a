# SPDX-License-Identifier: Apache-2.0

"""Labels of a host from Node Feature Discovery, and back into it.

The kernel's labels are in :mod:`sriov_rt.host.labels`. Here they are merged
with those of the label sources (stevedore ``sriov_rt.label_sources``), each of
which may be down for a while.
"""
