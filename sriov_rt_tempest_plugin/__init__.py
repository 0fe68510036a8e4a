# SPDX-License-Identifier: Apache-2.0

"""Tempest plugin of sriov-rt: tests for a cloud that runs it."""
