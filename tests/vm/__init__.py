# SPDX-License-Identifier: Apache-2.0

"""Tests on a PREEMPT_RT machine with SR-IOV cards, in QEMU."""
