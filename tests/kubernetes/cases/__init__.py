# SPDX-License-Identifier: Apache-2.0

"""Cases that run in namespaces of their own; see test_node."""
