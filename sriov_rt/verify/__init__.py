# SPDX-License-Identifier: Apache-2.0

"""Measurements of this host, and the latency certificate that they earn."""
