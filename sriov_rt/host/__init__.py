# SPDX-License-Identifier: Apache-2.0

"""Observation of one host, with a source for each part of its facts."""
