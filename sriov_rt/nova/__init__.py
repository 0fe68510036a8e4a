# SPDX-License-Identifier: Apache-2.0

"""The adapters to Nova: the only modules that import it."""
