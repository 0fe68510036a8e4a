# SPDX-License-Identifier: Apache-2.0

"""KubeVirt's own callers of hooks, built from Go modules."""
