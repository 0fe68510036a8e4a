# SPDX-License-Identifier: Apache-2.0

"""Magnum's own code around the cluster driver, in a process of its own."""
