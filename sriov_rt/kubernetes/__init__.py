# SPDX-License-Identifier: Apache-2.0

"""Kubernetes: the host's own Node as a label source.

The only room that imports the package ``kubernetes``, and that late: hosts
that are no Kubernetes nodes do not need it.
"""
