# SPDX-License-Identifier: Apache-2.0

"""VFs and their PFs: NIC families, settings, resets and provisioning."""
