# SPDX-License-Identifier: Apache-2.0

"""Guest hooks, which adapt a domain's XML to a Request and HostFacts.

Pure. Start reading at :func:`sriov_rt.guest.engine.render`.
"""
