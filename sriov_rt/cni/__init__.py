# SPDX-License-Identifier: Apache-2.0

"""The CNI plug-in that resets the VFs of pods, and what sriov-cni notes."""
