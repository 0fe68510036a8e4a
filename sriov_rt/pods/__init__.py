# SPDX-License-Identifier: Apache-2.0

"""Pods: the nodes that can run one, and Onload in it."""
