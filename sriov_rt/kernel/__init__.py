# SPDX-License-Identifier: Apache-2.0

"""Edge to the kernel's network: namespaces, links, VFs, tc, announcements."""
