# SPDX-License-Identifier: Apache-2.0

"""The CNI plug-in that resets pods' VFs, and sriov-cni's state files."""
