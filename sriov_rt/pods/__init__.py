# SPDX-License-Identifier: Apache-2.0

"""Pods: the nodes that take one, and Onload in it."""
