# SPDX-License-Identifier: Apache-2.0

"""Tests of the compute API with our extra specs."""
