# SPDX-License-Identifier: Apache-2.0

"""Adapter for libvirt: the program that its hooks call."""
