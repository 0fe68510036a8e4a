# SPDX-License-Identifier: Apache-2.0

"""Ports of instances and containers: plan, plug, unplug and recovery."""
