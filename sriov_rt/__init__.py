# SPDX-License-Identifier: Apache-2.0

"""Realtime and low-latency networking for OpenStack."""
