# SPDX-License-Identifier: Apache-2.0

"""Benchmarks: ``python -m tests.benchmarks``."""
