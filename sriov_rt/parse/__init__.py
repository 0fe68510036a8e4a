# SPDX-License-Identifier: Apache-2.0

"""Parsers of texts from hosts, flavors and administrators.

Each takes any text and either returns a value or raises
:class:`~sriov_rt.parse.errors.ParseError`, in time and memory bounded by a
limit that it states. None does I/O.
"""
