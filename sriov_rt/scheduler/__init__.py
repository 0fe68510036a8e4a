# SPDX-License-Identifier: Apache-2.0

"""The facts table in nova-scheduler, and the verdicts on hosts from it."""
