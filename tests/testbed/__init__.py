# SPDX-License-Identifier: Apache-2.0

"""A real OpenStack cloud on one machine, for the cloud tests and the demo.

The package needs the standard library only: it is what installs the rest.
"""
