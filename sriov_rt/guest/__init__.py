# SPDX-License-Identifier: Apache-2.0

"""Guest hooks: a domain's XML, a Request and HostFacts to better XML.

Pure: :func:`sriov_rt.guest.engine.render` is where to begin.
"""
