# SPDX-License-Identifier: Apache-2.0

"""Resource providers in Placement, and the traits of hosts and labels."""
