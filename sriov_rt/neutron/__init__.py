# SPDX-License-Identifier: Apache-2.0

"""The adapters to Neutron: the only modules that import it."""
