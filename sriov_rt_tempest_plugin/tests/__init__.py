# SPDX-License-Identifier: Apache-2.0

"""The plugin's tests."""
