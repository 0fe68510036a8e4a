# SPDX-License-Identifier: Apache-2.0

"""Onload: profiles as data, injection into workloads, and status."""
