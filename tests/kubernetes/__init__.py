# SPDX-License-Identifier: Apache-2.0

"""Tests on a real Kubernetes control plane with NFD."""
