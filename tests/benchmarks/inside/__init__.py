# SPDX-License-Identifier: Apache-2.0

"""Programs that run in the machine, and print rows as JSON."""
