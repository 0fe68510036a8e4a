# SPDX-License-Identifier: Apache-2.0

"""Parts of any service: threads, signals, retries, messages."""
