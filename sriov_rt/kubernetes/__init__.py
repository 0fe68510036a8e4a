# SPDX-License-Identifier: Apache-2.0

"""Kubernetes: the host's own Node as a label source.

Only this package imports ``kubernetes``, and only when it is needed: hosts
other than Kubernetes nodes can do without it.
"""
