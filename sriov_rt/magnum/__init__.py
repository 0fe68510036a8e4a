# SPDX-License-Identifier: Apache-2.0

"""Magnum: nodegroups whose flavors ask for realtime or fast networks."""
