# SPDX-License-Identifier: Apache-2.0

"""The kernel's network: namespaces, links, VFs, tc, announcements."""
