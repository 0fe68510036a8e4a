# SPDX-License-Identifier: Apache-2.0

"""The host service: observe, publish, keep Placement up to date."""
