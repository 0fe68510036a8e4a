# SPDX-License-Identifier: Apache-2.0

"""VFs and their PFs: families of NICs, settings, reset and provision."""
