# SPDX-License-Identifier: Apache-2.0

"""Adapter for oVirt: the hook program of vdsm, its host agent."""
