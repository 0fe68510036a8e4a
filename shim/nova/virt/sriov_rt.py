# SPDX-License-Identifier: Apache-2.0

"""Where Nova looks for a compute driver: nova.virt, and nowhere else."""

from sriov_rt.nova.driver import RealtimeLibvirtDriver

__all__ = ["RealtimeLibvirtDriver"]
