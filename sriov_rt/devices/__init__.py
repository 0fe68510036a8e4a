# SPDX-License-Identifier: Apache-2.0

"""Whole PCI devices between two tenants."""
