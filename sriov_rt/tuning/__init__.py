# SPDX-License-Identifier: Apache-2.0

"""Tuning of a host that serves: the fix plan, carried out and undone."""
