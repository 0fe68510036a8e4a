# SPDX-License-Identifier: Apache-2.0

"""A worker node: its image and its user data."""
