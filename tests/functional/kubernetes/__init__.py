# SPDX-License-Identifier: Apache-2.0

"""The label source on sockets; needs the package kubernetes."""
