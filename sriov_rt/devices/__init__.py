# SPDX-License-Identifier: Apache-2.0

"""Cleaning of whole PCI devices between two tenants."""
