# SPDX-License-Identifier: Apache-2.0

"""A cloud of many hosts: ``python -m tests.benchmarks.scale``."""
