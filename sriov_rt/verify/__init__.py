# SPDX-License-Identifier: Apache-2.0

"""Measurements of this host: latency, and the certificate that it earns."""
