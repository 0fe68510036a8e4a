# SPDX-License-Identifier: Apache-2.0

"""Adapter for KubeVirt: domain hooks, node hooks, and the old shim."""
