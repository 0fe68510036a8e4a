# SPDX-License-Identifier: Apache-2.0

"""A real OpenStack cloud on one machine, for the cloud tests and the demo.

The package needs only the standard library, since it installs the rest.
"""
